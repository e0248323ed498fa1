"""Servers and files around a gateway: Kafka brokers, Grafana dashboards, the Helm chart."""
