"""Rows that a gateway writes into users' topics: by ids, plain and staged, read by another client."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from aiokafka.errors import KafkaConnectionError
from confluent_kafka.admin import NewPartitions

from oncegate.core.errors import LedgerFull, NotFound, TooLarge
from oncegate.ledgers.frames import Frame, Sent
from oncegate.ledgers.kafka.partition import Partition
from oncegate.ledgers.kafka.record_batch import BATCH_BYTES
from oncegate.ledgers.kafka.rows.user_topics import UserTopics
from oncegate.ledgers.kafka.shard.blobs import Assembly
from oncegate.ledgers.kafka.topics import Admin
from oncegate_spark.errors import OncegateError, Refused
from tests.support.gateway_process import GatewayProcess
from tests.support.kafka_broker import WAIT_S, Broker
from tests.support.kafka_users import client_of, url
from tests.support.staged_batches import Batch

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def gateway(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with GatewayProcess(tmp_path_factory.mktemp("gateway"), ledger=url(broker, "users")) as gateway:
        yield gateway


def values(broker: Broker, topic: str, partitions: int = 1) -> Counter[bytes]:
    return Counter(value for number in range(partitions) for value in broker.committed(Partition(topic, number)))


def frames_of(broker: Broker, topic: str) -> list[Frame]:
    assembly = Assembly(topic)
    return [
        frame
        for message in broker.messages(Partition(topic, 0))
        for frame in assembly.add(message.offset(), message.value())
    ]


def rows_of(*names: str) -> Any:
    return pa.table({"key": list(names), "value": [f"value of {name}" for name in names]})


def wanted(*names: str) -> Counter[bytes]:
    return Counter(f"value of {name}".encode() for name in names)


def test_rows_with_ids_are_written_once_whatever_the_writer(broker: Broker, gateway: GatewayProcess) -> None:
    topic = broker.topic(3).topic
    with client_of(gateway) as client:
        for names in (["a", "b", "c"], ["b", "c", "d"], ["d"]):
            with client.attempt() as attempt:
                written = attempt.produce(topic, rows_of(*names), id_col="key")
                assert sum(one.rows for one in written.offsets) == written.rows
    assert values(broker, topic, 3) == wanted("a", "b", "c", "d")


def test_an_id_that_is_no_part_of_a_record_is_used_and_not_written(broker: Broker, gateway: GatewayProcess) -> None:
    topic = broker.topic().topic
    table = pa.table({"order_id": [1, 2, 2], "value": ["x", "y", "z"]})
    with client_of(gateway) as client, client.attempt() as attempt:
        assert attempt.produce(topic, table, id_col="order_id").rows == 2
    assert values(broker, topic) == Counter([b"x", b"y"])


def test_rows_without_ids_are_written_each_time(broker: Broker, gateway: GatewayProcess) -> None:
    topic = broker.topic(2).topic
    with client_of(gateway) as client, client.attempt() as attempt:
        for _ in range(2):
            assert attempt.produce(topic, rows_of("a", "b")).rows == 2
    assert values(broker, topic, 2) == wanted("a", "a", "b", "b")


def test_a_staged_batch_is_seen_when_it_is_committed_and_once(broker: Broker, gateway: GatewayProcess) -> None:
    topic = broker.topic(4).topic
    with client_of(gateway) as client:
        batch = Batch(client, topic)
        batch.stage(rows_of("a", "b"))
        batch.stage(rows_of("c"))
        assert values(broker, topic, 4) == Counter()
        assert (batch.commit().outcome, batch.commit().outcome) == ("COMMITTED", "COMMITTED")
        again = Batch(client, topic, "a-later-run")
        again.stage(rows_of("a", "b", "c"))
        assert again.commit().outcome == "DUPLICATE"
    assert values(broker, topic, 4) == wanted("a", "b", "c")


def test_a_topic_that_gets_more_partitions_keeps_what_was_written(broker: Broker, tmp_path: Path) -> None:
    topic, names = broker.topic(1).topic, [f"o-{number}" for number in range(20)]
    with GatewayProcess(tmp_path, ledger=url(broker, "grown")) as gateway, client_of(gateway) as client:
        with client.attempt() as attempt:
            assert attempt.produce(topic, rows_of(*names[:10]), id_col="key").rows == 10
        broker.admin.create_partitions([NewPartitions(topic, 4)])[topic].result(WAIT_S)
        # The number of partitions is asked again every half minute, and at a start.
        gateway.kill()
        gateway.start()
        with client.attempt() as attempt:
            assert attempt.produce(topic, rows_of(*names), id_col="key").rows == 10
    assert values(broker, topic, 4) == wanted(*names)
    assert values(broker, topic) != wanted(*names), "the new partitions are used"


async def test_a_question_about_a_topic_that_brokers_did_not_answer_is_asked_again(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An earlier answer would be valid for another half minute, although the topic was deleted."""
    topic = broker.topic().topic
    topics = UserTopics(broker.settings(), broker.cluster.bootstrap, "p.")

    async def away(*_: object) -> None:
        raise KafkaConnectionError

    try:
        await topics.ask([topic])
        topics.forget([topic])
        with monkeypatch.context() as patched:
            patched.setattr(Admin, "describe_topics", away)
            with pytest.raises(LedgerFull, match="cannot be asked about now"):
                await topics.ask([topic])
        broker.admin.delete_topics([topic])[topic].result(WAIT_S)
        with pytest.raises(NotFound):
            await topics.ask([topic])
    finally:
        await topics.close()


async def test_a_batch_that_one_transaction_is_too_short_for_is_refused_with_the_numbers() -> None:
    topics = UserTopics({}, "", "p.", sending_ms=2_000)
    with pytest.raises(TooLarge, match=r"100000000 bytes .* at most 67108864 bytes .* raise transaction_ms"):
        await topics.check("flights", pa.schema([]), (), waiting_bytes=100_000_000)


def test_a_stage_without_its_first_chunk_is_missing(broker: Broker, gateway: GatewayProcess) -> None:
    topic = broker.topic().topic
    with client_of(gateway) as client:
        batch = Batch(client, topic, chunks=1)
        batch.stage(rows_of("b"))
        with pytest.raises(OncegateError) as refused:
            batch.commit()
    assert refused.value.code == "MISSING_STAGE"
    assert values(broker, topic) == Counter()


def test_staged_rows_survive_the_gateway(broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic(2).topic
    with GatewayProcess(tmp_path, ledger=url(broker, "survives")) as gateway, client_of(gateway) as client:
        batch = Batch(client, topic)
        batch.stage(rows_of("a", "b"))
        gateway.kill()
        gateway.start()
        batch.stage(rows_of("c"))
        batch.commit()
        gateway.kill()
        gateway.start()
        assert batch.commit().rows == 3
    assert values(broker, topic, 2) == wanted("a", "b", "c")


def test_a_batch_goes_to_several_topics_at_once(broker: Broker, tmp_path: Path) -> None:
    first, second = broker.topic(2).topic, broker.topic().topic
    table = rows_of("a", "b", "c").append_column("topic", [[first, second, first]])
    with GatewayProcess(tmp_path, ledger=url(broker, "several")) as gateway, client_of(gateway) as client:
        batch = Batch(client, "the-name-of-a-sink")
        batch.stage(table)
        # Only the rows themselves name the topics to which they go.
        gateway.kill()
        gateway.start()
        batch.commit()
    assert values(broker, first, 2) == wanted("a", "c")
    assert values(broker, second) == wanted("b")


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"carrier": ["UA"]}, "none of a Kafka record's"),
        ({"value": ["v"], "topic": ["nowhere"]}, "no Kafka topic 'nowhere'"),
        ({"value": ["v"], "partition": pa.array([4], pa.int32())}, "partition 4"),
        ({"value": ["v"], "topic": ["users.default.ledger"]}, "the gateway's own"),
    ],
)
def test_rows_that_can_be_no_record_are_refused_before_any_effect(
    broker: Broker, gateway: GatewayProcess, columns: dict[str, Any], words: str
) -> None:
    topic = broker.topic().topic
    with client_of(gateway) as client:
        with client.attempt() as attempt, pytest.raises(OncegateError, match=words):
            attempt.produce(topic, pa.table(columns))
        with pytest.raises(OncegateError, match=words):
            Batch(client, topic).stage(pa.table(columns))
    assert values(broker, topic) == Counter()


def test_a_topic_that_takes_smaller_batches_is_refused_by_the_setting_to_raise(
    broker: Broker, gateway: GatewayProcess
) -> None:
    topic = broker.topic(**{"max.message.bytes": "50000"}).topic
    too_small = pytest.raises(Refused, match=r"max\.message\.bytes=50000.*raise it")
    with client_of(gateway) as client, client.attempt() as attempt, too_small:
        attempt.produce(topic, rows_of("a"))


def test_a_topic_that_takes_just_the_batches_that_are_written_is_written(
    broker: Broker, gateway: GatewayProcess
) -> None:
    topic = broker.topic(**{"max.message.bytes": str(BATCH_BYTES)}).topic
    with client_of(gateway) as client, client.attempt() as attempt:
        assert attempt.produce(topic, rows_of("a")).rows == 1


def test_reading_back_names_where_the_rows_are(broker: Broker, gateway: GatewayProcess) -> None:
    topic = broker.topic().topic
    with client_of(gateway) as client:
        with client.attempt() as attempt:
            attempt.produce(topic, rows_of("a"))
        with pytest.raises(OncegateError, match=f"read topic {topic} of {broker.cluster.bootstrap}") as refused:
            client.read(topic)
    assert refused.value.code == "READ_ELSEWHERE"


def test_every_record_of_users_is_named_by_a_frame(broker: Broker, tmp_path: Path) -> None:
    """Another client checks that each transaction's frame names its records."""
    topic = broker.topic(2).topic
    with (
        GatewayProcess(tmp_path, ledger=url(broker, "named")) as gateway,
        client_of(gateway) as client,
        client.attempt() as attempt,
    ):
        attempt.produce(topic, rows_of(*"abcdef"), id_col="key")
        attempt.produce(topic, rows_of("g"))
    found = Counter[int]()
    for frame in frames_of(broker, "named.default.ledger"):
        for change in frame.body.changes:
            if isinstance(change, Sent):
                assert change.topic == topic
                found[change.partition] += change.records
    assert found == {number: len(broker.committed(Partition(topic, number))) for number in range(2)}
