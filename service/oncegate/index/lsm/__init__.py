"""The cold tier: old ids in sorted runs on disk, each with a Bloom filter."""
