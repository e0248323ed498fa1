"""The load generator: requests, clients and the servers under test."""
