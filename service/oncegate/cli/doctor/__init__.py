"""The verb `oncegate doctor`: what is wrong with an installation, why that matters, and what to do."""
