"""Requests and the interpretation of their replies, without I/O."""
