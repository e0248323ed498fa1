"""A hash table of 128-bit ids in numpy arrays, with compiled loops; it knows no claim."""
