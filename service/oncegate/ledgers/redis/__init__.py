"""Ledgers on a Redis server: streams of frames, rows and snapshots, with separate keys for each ledger."""
