"""Knows epochs, watermarks and intervals of sequences of each producer."""
