"""Ledgers and runs that each break one promise: what the conformance suite itself is tested with."""
