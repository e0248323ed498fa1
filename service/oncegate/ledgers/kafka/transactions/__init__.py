"""Kafka transactions over aiokafka: a producer, a guard that decides their outcome, and its errors."""
