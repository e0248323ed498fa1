"""What one process counts for a shard: by the table of counters, and by buckets."""
