"""A hash table of 128-bit ids in numpy arrays, with compiled loops. Imports nothing of the index of claims."""
