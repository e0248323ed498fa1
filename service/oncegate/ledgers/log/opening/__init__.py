"""Opening a log ledger: scan, recovery, replay, creation."""
