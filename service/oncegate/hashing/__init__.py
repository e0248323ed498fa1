"""Hashes of ids, payloads, rows and requests: pure functions of bytes."""
