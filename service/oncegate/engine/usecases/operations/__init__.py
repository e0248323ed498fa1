"""Implements operators' actions: the ledger records each one, with who did it and why."""
