"""Writes records of duplicates into a topic that users make, beside the ledger."""
