"""Grafana dashboards of a gateway."""
