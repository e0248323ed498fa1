"""Counts the duplicates in existing rows: how many, how old, why, and how many each retention of ids would catch."""
