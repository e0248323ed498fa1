"""Calls of the gateway as generators of requests and pauses, without sockets and clocks."""
