"""Apache Kafka brokers on this machine, from the jars of Maven Central, without Docker or an installation."""
