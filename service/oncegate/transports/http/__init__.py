"""The HTTP transport, on FastAPI."""
