"""Holds one namespace's ledger on Kafka: its frames, who owns it, how it is opened, appended to, read and compacted."""
