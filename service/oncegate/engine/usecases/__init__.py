"""Handles requests, a file for each kind: what is checked, decided, appended and answered."""
