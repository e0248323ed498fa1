"""One process with hundreds of millions of ids."""
