"""Oncegate: a deduplicating gateway that makes retried writes take effect once."""

__version__ = "0.1.0"
