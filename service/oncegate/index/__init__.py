"""The in-memory state of a shard, as arrays: a pure function of the ledger. Synchronous; opens no file."""
