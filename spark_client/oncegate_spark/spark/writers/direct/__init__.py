"""Writes with `write=direct`: the tasks write into Kafka themselves."""
