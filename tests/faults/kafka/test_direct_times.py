"""Transactions of write=direct that are too slow, left open, or of another source, on a real broker."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from oncegate_spark import Fenced, Gateway, SourceReplaced
from oncegate_spark.direct import DirectWriter, DirectWritten
from tests.support.kafka_broker import Broker
from tests.support.kafka_lanes import TRANSACTION_MS, rows, serving, transaction, writer, written

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def gateway(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with serving(broker, tmp_path_factory.mktemp("gateway"), "direct-times") as served, Gateway(served.url) as client:
        yield client


@pytest.fixture
def topic(broker: Broker) -> str:
    return broker.topic().topic


class Slow:
    """A gateway's client with a manual clock."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway, self.clock, self.now_ms = gateway, self, 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._gateway, name)

    def monotonic_ms(self) -> int:
        return self.now_ms


@pytest.mark.parametrize("open_ms", [TRANSACTION_MS - 1, TRANSACTION_MS])
def test_a_transaction_ended_by_brokers_for_being_slow_is_reported_with_the_line_to_write(
    gateway: Gateway, broker: Broker, topic: str, open_ms: int
) -> None:
    """Ends the producer's epoch. Brokers report the same error after transaction.timeout.ms."""
    slow = Slow(gateway)
    with transaction(slow, topic) as late:  # type: ignore[arg-type]
        late.start()
        late.add(rows(*range(10)))
        with transaction(gateway, topic) as ending:
            ending.start()
        slow.now_ms = open_ms
        with pytest.raises(Fenced) as raised:
            late.commit()
    line = f'write .option("transactionMs", "{2 * TRANSACTION_MS}")'
    assert (line in str(raised.value)) is (open_ms >= TRANSACTION_MS)
    assert written(broker, topic) == []
    assert writer(gateway, topic).write(rows(*range(10))) == DirectWritten(10, 0)


def test_a_transaction_that_is_left_open_ends_when_a_producer_starts_under_its_id(
    gateway: Gateway, broker: Broker, topic: str
) -> None:
    """The two lines of the runbook. Readers of committed records wait until then."""
    with transaction(gateway, topic) as left:
        left.start()
        left.add(rows(*range(10)))
        assert left._producer is not None
        assert left._producer.flush(9) == 0
        assert stable_end(broker, topic) == 0
        ending = {"bootstrap.servers": broker.cluster.bootstrap, "log_level": 0}
        transactional_id = gateway.open_lane(topic, "p").transactional_id
        Producer({**ending, "transactional.id": transactional_id}).init_transactions(30)
        assert stable_end(broker, topic) == 11, "ten rows and their marker"
    assert written(broker, topic) == []
    assert writer(gateway, topic).write(rows(*range(10))) == DirectWritten(10, 0)


def stable_end(broker: Broker, topic: str) -> int:
    """Returns the last stable offset."""
    consumer = Consumer({"bootstrap.servers": broker.cluster.bootstrap, "group.id": "t"})
    try:
        return int(consumer.get_watermark_offsets(TopicPartition(topic, 0), 30)[1])
    finally:
        consumer.close()


def test_rows_of_a_source_that_was_made_again_are_refused_before_any_is_written(
    gateway: Gateway, broker: Broker, topic: str
) -> None:
    first, second = "AbCdEfGhIjKlMnOpQrStUv", "ZzCdEfGhIjKlMnOpQrStUv"
    assert writer(gateway, topic).write(rows(0, 1)) == DirectWritten(2, 0)
    assert DirectWriter(gateway, topic, "p", source_id=first).write(rows(0, 1, 2)) == DirectWritten(1, 2)
    with pytest.raises(SourceReplaced, match="Two ways on"):
        DirectWriter(gateway, topic, "p", source_id=second).write(rows(0, 1, 2, 3))
    assert written(broker, topic) == [0, 1, 2]
    assert DirectWriter(gateway, topic, "again-p", source_id=second).write(rows(0, 1)) == DirectWritten(2, 0)
