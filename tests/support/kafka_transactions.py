"""Transactions into a topic of a real broker, some of them aborted: their markers and rows are holes in its offsets."""

from confluent_kafka import Producer

from tests.support.kafka_broker import WAIT_S

PARTITIONS = 2
RECORDS = 5  # of a transaction, in each partition
ABORTED_EACH = 3  # of so many transactions the second one is aborted


def write_transactions(bootstrap: str, topic: str, first: int, count: int) -> None:
    """Write transactions `first` and following; record n of transaction t in partition p says "t/p/n"."""
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
