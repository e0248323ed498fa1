"""Apache Kafka brokers on this machine, from the jars of Maven Central: no Docker, no installation."""
