"""Counters and histograms of one process for a shard, and the log of duplicates."""
