"""The files of the log ledger: one file format each."""
