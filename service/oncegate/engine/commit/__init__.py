"""Group commit: the only caller of a ledger's append."""
