"""Lets gateways stand by for the one that owns the ledgers below a prefix, on whatever servers these lie."""
