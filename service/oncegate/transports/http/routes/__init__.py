"""The routes: read, call, answer."""
