"""The figures of the bench and their report."""
