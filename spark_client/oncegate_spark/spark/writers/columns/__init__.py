"""Conversion of a write's columns to its topic's: compared on the driver, applied in the tasks."""
