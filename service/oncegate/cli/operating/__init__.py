"""Verbs of operators: what each does stands in the ledger, with who and why; `log` shows it."""
