"""The demo on a real Kafka broker: Spark's own Kafka sink beside Oncegate, into topics that Kafka's clients read."""
