"""Operator commands on a log ledger: init, accept, backup, restore, verify, dump."""
