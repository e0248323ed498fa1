"""The network interfaces of the engine: HTTP and gRPC, and their shared parts."""
