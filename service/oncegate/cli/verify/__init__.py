"""Holds the verb `oncegate verify`: of a ledger's files, or of a topic against its input."""

from oncegate.cli.verify.verb import verify

__all__ = ["verify"]
