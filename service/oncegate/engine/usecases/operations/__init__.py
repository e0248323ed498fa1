"""Implements operators' actions; the ledger records each action with its author and reason."""
