"""Bytes that nobody wrote, for everything that reads bytes: `make fuzz`."""
