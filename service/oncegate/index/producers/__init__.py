"""Epochs, watermarks and sequence intervals of each producer."""
