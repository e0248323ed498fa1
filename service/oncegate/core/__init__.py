"""Decision tables that define "duplicate": pure, synchronous, without clock or I/O."""
