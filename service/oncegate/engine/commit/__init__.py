"""Writes to the ledger: the only caller of `Ledger.append` while a shard serves."""
