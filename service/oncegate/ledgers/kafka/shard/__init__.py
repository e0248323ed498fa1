"""The ledger of a namespace on Kafka: ownership, opening, appends, reads and compaction."""
