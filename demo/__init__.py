"""The demo: real flights, a real Spark job, six real faults, with and without the gateway: `python -m demo`."""
