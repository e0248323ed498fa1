"""The state of free ids: which are claimed, done or taken, and by which claim."""
