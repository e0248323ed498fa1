"""Writing granted rows into sinks that can be asked what they have."""
