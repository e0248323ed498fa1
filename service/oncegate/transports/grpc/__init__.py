"""gRPC by grpcio."""
