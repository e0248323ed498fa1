"""The demo on a real Redis server, which holds the ledger and the rows of all topics."""
