"""Decides who may call what: one table for every transport, and the keys that callers show."""
