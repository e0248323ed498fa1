"""Holds transactions over aiokafka: their batches, how they are sent, and how they end."""
