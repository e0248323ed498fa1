"""Reads and trims what clients commit beside rows that they write themselves."""
