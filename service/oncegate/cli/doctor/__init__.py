"""The verb `oncegate doctor`: reports each problem of an installation, its consequence and its remedy."""
