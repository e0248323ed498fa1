"""Finds transactions that brokers have ended and left open, and writes the markers that they forgot."""
