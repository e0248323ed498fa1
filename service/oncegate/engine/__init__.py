"""Use cases: all control flow, all awaiting."""
