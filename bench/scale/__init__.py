"""Measures one process with hundreds of millions of ids."""
