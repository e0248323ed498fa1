"""Serves clients that write rows directly into Kafka: opens their lanes (numbered streams) and reports which sequences
are written."""
