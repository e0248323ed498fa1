"""Arrays and bytes: everything fast, a pure function of the ledger. Synchronous; opens no file."""
