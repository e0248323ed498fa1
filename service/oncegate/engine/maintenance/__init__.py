"""The background work of a shard: snapshots, eviction, compaction, retention."""
