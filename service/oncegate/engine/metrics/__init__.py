"""What a gateway tells of itself as metrics: one table, and who reads it."""
