"""Does a shard's background work: snapshots, eviction, compaction, retention."""
