"""Knows which id is claimed, done or taken, and by which claim."""
