"""Transactions on a real broker, some aborted: their markers and rows are gaps in the committed offsets."""

from confluent_kafka import Producer

from tests.support.kafka_broker import WAIT_S

PARTITIONS = 2
RECORDS = 5  # records of a transaction in each partition
ABORTED_EACH = 3  # of every three transactions the second is aborted


def write_transactions(bootstrap: str, topic: str, first: int, count: int) -> None:
    """Writes transactions from number `first` on. Record n of transaction t in partition p has the value "t/p/n"."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"{topic}-{first}", "log_level": 0})
    producer.init_transactions(WAIT_S)
    for number in range(first, first + count):
        producer.begin_transaction()
        for place in range(PARTITIONS * RECORDS):
            partition, n = place % PARTITIONS, place // PARTITIONS
            producer.produce(topic, f"{number}/{partition}/{n}", partition=partition)
        producer.flush(WAIT_S)
        if number % ABORTED_EACH == 1:
            producer.abort_transaction(WAIT_S)
        else:
            producer.commit_transaction(WAIT_S)
