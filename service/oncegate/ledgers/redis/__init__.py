"""Ledgers on a Redis server: frames, rows and saved states in streams, one set of keys a ledger."""
