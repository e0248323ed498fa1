"""How the columns of a write become those of its topic: compared on the driver, fitted in the tasks."""
