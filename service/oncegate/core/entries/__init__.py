"""The entries of the ledger: their kinds, fields and binary format."""
