"""Bytes in, digests out: ids, payloads, rows and requests; nothing here keeps a state."""
