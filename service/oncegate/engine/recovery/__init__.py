"""Brings a ledger back to a shard that serves."""
