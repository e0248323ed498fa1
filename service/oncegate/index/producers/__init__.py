"""The producers' index: epochs, watermarks and intervals of sequences."""
