"""The load: requests, clients and the servers under test."""
