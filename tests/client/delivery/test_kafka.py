"""The Kafka sink against a real broker: transactions, fenced and read back."""

from collections import Counter
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaException, Producer

from oncegate.ledgers.kafka.partition import Partition
from oncegate_spark import Fenced, Gateway, SinkRefused
from oncegate_spark.delivery import Delivered, Delivery, KafkaSink, Record, Resolved, Resolver
from tests.support.kafka_broker import Broker, one_broker

pytestmark = [pytest.mark.server, pytest.mark.slow]
TWO = [Record("o-1", b"one"), Record("o-2", b"two")]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with one_broker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


def sink_of(broker: Broker, topic: str, writer: str, **more: object) -> KafkaSink:
    return KafkaSink(broker.cluster.bootstrap, topic, f"{topic}-{writer}", **more)  # type: ignore[arg-type]


def values(broker: Broker, topic: str) -> Counter[bytes]:
    return Counter(broker.values(topic))


def opened(broker: Broker, transactional_id: str, topic: str, value: bytes) -> Producer:
    """Returns a producer with an open transaction and a record on the broker."""
    producer = Producer({"bootstrap.servers": broker.cluster.bootstrap, "transactional.id": transactional_id})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, value, headers=[("oncegate-id", value)])
    producer.flush(30)
    return producer


def test_records_are_written_once_with_their_ids(gateway: Gateway, broker: Broker) -> None:
    partition = broker.topic()
    with_key = sink_of(broker, partition.topic, "0", key=lambda record: b"k")
    for expected in (Delivered(written=2), Delivered(duplicates=2)):
        assert Delivery(gateway, with_key).deliver(TWO) == expected
    with_key.close()
    found = broker.messages(partition)
    assert [(one.key(), one.value(), one.headers()) for one in found] == [
        (b"k", b"one", [("oncegate-id", b"o-1")]),
        (b"k", b"two", [("oncegate-id", b"o-2")]),
    ]


def test_a_dead_writers_committed_records_are_found_and_its_open_transaction_is_ended(
    gateway: Gateway, broker: Broker
) -> None:
    topic = broker.topic(2).topic
    gateway.attempt().claim(["o-1", "o-2"], 1_000)
    dead = sink_of(broker, topic, "0")
    dead.write(TWO[:1])
    dead.close()
    zombie = opened(broker, f"{topic}-0", topic, b"o-2")  # the same writer, before it could commit the other
    sink = sink_of(broker, topic, "0")
    assert Delivery(gateway, sink).deliver(TWO) == Delivered(written=1, found=1)
    with pytest.raises(KafkaException, match="fenced"):
        zombie.commit_transaction(30)
    assert sink.find(["o-1", "o-2", "o-3"]) == {"o-1", "o-2"}
    sink.close()


def test_records_after_another_writers_open_transaction_are_waited_for(gateway: Gateway, broker: Broker) -> None:
    """A reader of committed records sees nothing after it: a missing record would be written twice."""
    topic = broker.topic().topic
    other = opened(broker, f"{topic}-other", topic, b"x")
    sink = sink_of(broker, topic, "0")
    sink.write(TWO)
    impatient = sink_of(broker, topic, "1", timeout_ms=8_000)
    with pytest.raises(TimeoutError, match="not read to its end"):
        impatient.find(["o-1", "o-2"])
    impatient.close()
    other.abort_transaction(30)
    assert sink.find(["o-1", "o-2", "x"]) == {"o-1", "o-2"}
    sink.close()


def test_an_older_writer_of_one_transactional_id_is_fenced_and_writes_nothing(gateway: Gateway, broker: Broker) -> None:
    topic = broker.topic().topic
    older, newer = sink_of(broker, topic, "0"), sink_of(broker, topic, "0")
    assert Delivery(gateway, older).deliver(TWO[:1]) == Delivered(written=1)
    assert newer.find(["o-1"]) == {"o-1"}
    with pytest.raises(Fenced):
        Delivery(gateway, older, lease_ms=1_000).deliver(TWO[1:])
    assert gateway.explain("o-2")["state"] in ("CLAIMED_LIVE", "CLAIMED_OVER")
    assert Delivery(gateway, newer).deliver(TWO[1:]) == Delivered(written=1)
    newer.close()
    assert values(broker, topic) == {b"one": 1, b"two": 1}


def test_a_record_that_brokers_refuse_aborts_its_transaction_and_frees_its_ids(
    gateway: Gateway, broker: Broker
) -> None:
    topic = broker.topic(max_message_bytes="1000").topic
    sink = sink_of(broker, topic, "0")
    for body in (b"x" * 2_000, b"x" * 2_000_000, 3):  # too large for this topic; for the client itself; not bytes
        with pytest.raises(SinkRefused, match="aborted"):
            Delivery(gateway, sink).deliver([*TWO, Record("o-3", body)])
        assert {gateway.explain(one)["state"] for one in ("o-1", "o-2", "o-3")} == {"ABSENT"}
    assert Delivery(gateway, sink).deliver(TWO) == Delivered(written=2)
    sink.close()
    assert values(broker, topic) == {b"one": 1, b"two": 1}


def test_a_resolver_settles_by_the_topic_from_a_time_on(gateway: Gateway, broker: Broker) -> None:
    topic = broker.topic(2).topic
    gateway.attempt().claim(["o-1", "o-2"], 1_000)
    dead = sink_of(broker, topic, "0")
    dead.write(TWO[:1])
    (message,) = [one for number in range(2) for one in broker.messages(Partition(topic, number))]
    written_ms = message.timestamp()[1]
    while gateway.explain("o-1")["state"] != "CLAIMED_OVER":
        pass
    assert sink_of(broker, topic, "0", since_ms=written_ms + 1).find(["o-1"]) == set()
    sink = sink_of(broker, topic, "0", since_ms=written_ms)
    assert Resolver(gateway, sink).resolve(["o-1", "o-2"]) == Resolved(completed=1, released=1)
    sink.close()


@pytest.mark.parametrize("since_ms", [None, 1])
def test_a_topic_unknown_to_the_brokers_is_not_taken_for_an_empty_one(
    gateway: Gateway, broker: Broker, since_ms: int | None
) -> None:
    """The topic is misspelt or hidden from this user: records that seem missing would be written twice."""
    gateway.attempt().claim(["o-1"], 1_000)
    while gateway.explain("o-1")["state"] != "CLAIMED_OVER":
        pass
    sink = sink_of(broker, "not-there", "0", since_ms=since_ms)
    with pytest.raises(KafkaException, match="UNKNOWN_TOPIC_OR_PART"):
        Resolver(gateway, sink, lease_ms=1_000).resolve(["o-1"])
    sink.close()
    while gateway.explain("o-1")["state"] != "CLAIMED_OVER":
        pass
    assert gateway.attempt().claim(["o-1"]).in_doubt == ["o-1"]
