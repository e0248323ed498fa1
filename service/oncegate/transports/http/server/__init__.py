"""The HTTP server below the framework, and the fast path that bypasses the framework."""
