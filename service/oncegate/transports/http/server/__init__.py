"""The protocol under the framework, and the fast path past it."""
