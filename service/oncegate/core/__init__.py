"""What "duplicate" means: pure, synchronous, no clock, no I/O."""
