"""Oncegate: a deduplicating gateway that makes retried writes take effect once."""

__version__ = "1.0.0rc1"
