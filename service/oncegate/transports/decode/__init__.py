"""From the bytes of any transport to the requests of the engine."""
