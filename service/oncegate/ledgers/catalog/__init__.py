"""The account that a ledger keeps of its outputs: ranges of rows that wait, and the topics made of published ones."""
