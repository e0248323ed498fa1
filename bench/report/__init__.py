"""Figures and their report."""
