"""Says what ledgers on Kafka need of their brokers: topics, rights, transactional ids; and looks what is there."""
