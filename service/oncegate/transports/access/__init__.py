"""Authentication and authorization: one table of rights for every transport, API keys, and tokens."""
