"""Keeps old ids in sorted runs on disk, behind Bloom filters: the cold tier."""
