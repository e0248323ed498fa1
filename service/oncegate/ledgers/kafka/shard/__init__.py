"""One namespace's ledger on Kafka: ownership, opening, appends, reads and compaction."""
