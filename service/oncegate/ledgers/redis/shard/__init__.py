"""One ledger: its keys, how it is opened, appended to, read back and shortened."""
