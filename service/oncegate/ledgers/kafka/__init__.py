"""Ledgers on Apache Kafka, over aiokafka."""
