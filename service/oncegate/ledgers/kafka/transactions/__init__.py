"""Transactions through aiokafka: what goes into one, how it is sent, and how it ended."""
