"""Code shared by the ledgers on servers, which are those on Kafka and Redis."""
