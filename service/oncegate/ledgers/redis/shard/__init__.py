"""The ledger of a namespace on Redis: keys, opening, appends, reads and trimming."""
