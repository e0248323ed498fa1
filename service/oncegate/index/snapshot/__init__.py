"""The whole index as bytes, and back."""
