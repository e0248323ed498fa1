"""The demo on a real Kafka broker: Spark's own Kafka sink compared with Oncegate, on topics read by Kafka's clients."""
