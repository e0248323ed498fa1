"""Opens ledgers: fencing, replay, standby, and recovery after failures."""
