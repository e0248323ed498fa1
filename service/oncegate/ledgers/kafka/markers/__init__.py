"""Repairs hanging transactions: ended by their coordinator, but open in partitions that lack the marker."""
