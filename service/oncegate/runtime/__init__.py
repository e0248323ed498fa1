"""Logging, tracing, and the setup of the process."""
