"""Keeps 128-bit ids in a hash table of numpy arrays, with compiled loops; it imports nothing of the index of claims."""
