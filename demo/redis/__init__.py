"""The demo on a real Redis server: every way to write, into topics whose rows and ledger lie there."""
