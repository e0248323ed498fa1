"""What operators do by hand: each action stands in the ledger, with who did it and why."""
