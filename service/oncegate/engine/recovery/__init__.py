"""From a ledger to a shard that serves."""
