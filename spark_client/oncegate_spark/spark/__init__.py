"""Spark sink, source and helpers."""
