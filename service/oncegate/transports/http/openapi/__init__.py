"""The OpenAPI document, and the sources from which it is generated."""
