"""The messages of the HTTP interface."""
