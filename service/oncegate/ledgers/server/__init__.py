"""Holds once what ledgers on servers share; `kafka` and `redis` are stores below it."""
