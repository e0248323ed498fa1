"""The settings of a namespace, and their effects on answers."""
