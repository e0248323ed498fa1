"""The benchmarks behind every claim about speed, run by `make bench`."""
