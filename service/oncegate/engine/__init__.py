"""Serves namespaces: the only layer with control flow and awaits."""
