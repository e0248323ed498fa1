"""Skins over the engine."""
