"""Serves namespaces: all control flow, all awaiting."""
