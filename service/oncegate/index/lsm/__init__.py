"""The cold tier: old ids in sorted runs on disk, behind Bloom filters."""
