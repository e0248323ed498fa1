"""Write mode direct: the tasks write into Kafka themselves."""
