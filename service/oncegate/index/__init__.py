"""Holds what a shard knows as arrays, a pure function of the ledger. Synchronous; opens no file."""
