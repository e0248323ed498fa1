"""Appends to the ledger, as its only caller while a shard serves."""
