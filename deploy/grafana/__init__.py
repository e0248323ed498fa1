"""Grafana's dashboards of a gateway, and how Grafana is told of them."""
