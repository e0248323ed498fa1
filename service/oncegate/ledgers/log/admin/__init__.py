"""What an operator does with a log ledger: init, backup, restore, verify, dump."""
