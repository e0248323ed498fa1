"""Turns the whole index into bytes, and back."""
