"""Where events go: log lines now, metrics and traces later."""
