"""Counts the duplicates in rows that are there already: how many, how old, why, and which horizon catches them."""
