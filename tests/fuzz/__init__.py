"""Damaged bytes for every reader of bytes: `make fuzz`."""
