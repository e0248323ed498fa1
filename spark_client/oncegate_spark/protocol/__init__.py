"""What every call sends and what its answer means; no I/O."""
