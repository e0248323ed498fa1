"""Decodes the bytes that any transport receives to requests for the engine."""
