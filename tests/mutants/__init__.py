"""Planted bugs: `make mutants` applies each to a copy of the source and shows which ordinary test turns red."""
