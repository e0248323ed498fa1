"""Sources of rows (input file, gateway topic, Kafka topic), and the gateway client."""
