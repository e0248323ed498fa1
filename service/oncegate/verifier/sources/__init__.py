"""Sources of rows: the input file, a topic of the gateway or of Kafka; and the client of the gateway."""
