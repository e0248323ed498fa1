"""The metrics of a gateway: one table, and its reader."""
