"""Reaches Apache Kafka through aiokafka, each transaction behind a guard."""
