"""Ledgers and runs that each break one promise, to test the conformance suite itself."""
