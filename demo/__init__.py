"""The demo, `python -m demo`: real flights, a real Spark job and six real faults, with and without the gateway."""
