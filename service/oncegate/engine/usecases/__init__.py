"""Handles requests, one file for each kind: checks, decides, appends and answers."""
