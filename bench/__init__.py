"""Every claim about speed, as a command: `make bench`."""
