"""What a shard does in the background: snapshots, eviction, compaction, retention."""
