"""Serves clients that write rows into Kafka themselves: opens their lanes and reports which sequences are written."""
