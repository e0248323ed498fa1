"""Asks gateways that run, for the verbs that do."""
