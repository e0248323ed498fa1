"""REST by FastAPI."""
