"""Injects faults into a gateway over a ledger on Kafka at every step of a transaction, an opening and a collection."""
