"""The verbs `oncegate export` and `import`: what a ledger knows of ids, carried into another one."""
