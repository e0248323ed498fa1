"""What a namespace is set to, and what its settings make of answers."""
