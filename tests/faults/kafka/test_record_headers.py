"""Headers of records that a gateway writes into users' topics: the writer and the sequence, read by another client."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from oncegate.core.errors import LedgerFull
from oncegate.ledgers.kafka.partition import Partition
from oncegate.ports import Origin, SendRanges
from oncegate_spark import Gateway, RecordCheck
from oncegate_spark.errors import OncegateError
from tests.support.gateway_process import GatewayProcess
from tests.support.kafka_broker import Broker
from tests.support.kafka_ledger import Prefix
from tests.support.kafka_proxy import END_TXN, KafkaProxy
from tests.support.kafka_sends import range_of
from tests.support.kafka_users import url
from tests.support.staged_batches import Batch, body

pytestmark = pytest.mark.slow
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
TOKEN = "0" * 31 + "1"
Told = dict[bytes, tuple[str, int, int]]


@pytest.fixture(scope="module")
def gateway(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with GatewayProcess(tmp_path_factory.mktemp("gateway"), ledger=url(broker, "headers")) as gateway:
        with client_of(gateway) as client:
            client.create_namespace(record_headers=True)
            assert client.describe()["record_headers"] is True
        yield gateway


@contextmanager
def client_of(gateway: GatewayProcess, namespace: str = "marked") -> Iterator[Gateway]:
    with Gateway(gateway.url, namespace=namespace, timeout_ms=60_000) as client:
        yield client


def messages_of(broker: Broker, topic: str, partitions: int) -> list[Any]:
    return [message for number in range(partitions) for message in broker.messages(Partition(topic, number))]


def headers_by_value(messages: list[Any]) -> Told:
    """Returns producer, epoch and sequence by value; each value must occur once."""
    found: Told = {}
    for message in messages:
        headers = dict(message.headers())
        assert headers["oncegate-ns"] == b"marked"
        epoch, sequence = (int.from_bytes(headers[f"oncegate-{name}"], "big") for name in ("epoch", "seq"))
        assert message.value() not in found
        found[message.value()] = (headers["oncegate-producer"].decode(), epoch, sequence)
    return found


def checked(messages: list[Any]) -> list[tuple[int, int, int]]:
    """Returns the records, duplicates and missing ones of each writer."""
    check = RecordCheck()
    check.add(message.headers() for message in messages)
    return [(row["records"], row["duplicates"], row["missing"]) for row in check.findings().to_pylist()]


def rows_of(*names: str) -> Any:
    return pa.table({"key": list(names), "value": list(names)})


def test_rows_by_id_have_the_attempt_the_call_and_their_place_in_it(broker: Broker, gateway: GatewayProcess) -> None:
    topic = broker.topic(3).topic
    with client_of(gateway) as client, client.attempt() as attempt:
        for names in (["a", "b", "a", "c"], ["b", "d", "e"], ["a"]):
            attempt.produce(topic, rows_of(*names), id_col="key")
        token = attempt.token
    messages = messages_of(broker, topic, 3)
    calls = {epoch for _, epoch, _ in headers_by_value(messages).values()}
    assert {producer for producer, _, _ in headers_by_value(messages).values()} == {f"attempt:{token}"}
    first, second = min(calls), max(calls)
    places = {value.decode(): (epoch, place) for value, (_, epoch, place) in headers_by_value(messages).items()}
    assert places == {"a": (first, 0), "b": (first, 1), "c": (first, 2), "d": (second, 0), "e": (second, 1)}
    assert sorted(checked(messages)) == [(2, 0, 0), (3, 0, 0)]


def test_payloads_have_a_digest_that_is_the_same_for_the_same_payload(broker: Broker, gateway: GatewayProcess) -> None:
    topic = broker.topic().topic
    table = pa.table({"key": ["a", "b", "c"], "value": ["x", "x", "y"]})
    with client_of(gateway) as client, client.attempt() as attempt:
        attempt.produce(topic, table, id_col="key", digest_cols="value")
    digests = [dict(message.headers())["oncegate-digest"] for message in messages_of(broker, topic, 1)]
    assert ([len(one) for one in digests], digests[0] == digests[1], digests[1] == digests[2]) == ([4] * 3, True, False)


def test_a_reader_finds_the_rows_that_a_repeat_without_ids_has_written_again(
    broker: Broker, gateway: GatewayProcess
) -> None:
    topic = broker.topic(2).topic
    with client_of(gateway) as client:
        for _ in range(2):
            client.produce(topic, TOKEN, 7, body(pa.table({"value": ["a", "b", "c"]})))
        with client.attempt() as attempt:
            attempt.produce(topic, rows_of("d"))
    messages = messages_of(broker, topic, 2)
    assert sorted(checked(messages)) == [(1, 0, 0), (6, 3, 0)]
    again = next(message.headers() for message in messages if message.value() == b"b")
    assert again == [
        ("oncegate-ns", b"marked"),
        ("oncegate-producer", b"attempt:" + TOKEN.encode()),
        ("oncegate-epoch", (7).to_bytes(8, "big")),
        ("oncegate-seq", (1).to_bytes(8, "big")),
    ]


def test_rows_by_sequence_have_their_producer_its_epoch_and_their_own_sequence(
    broker: Broker, gateway: GatewayProcess
) -> None:
    topic = broker.topic(2).topic

    def rows(*sequences: int) -> Any:
        return pa.table({"value": [str(one) for one in sequences], "n": pa.array(sequences, pa.int64())})

    with client_of(gateway) as client:
        with client.driver("d"):
            pass
        for several in ([10, 11, 13], [11, 13, 14, 20]):
            with client.producer("events-3", driver="d") as producer:
                producer.produce(topic, body(rows(*several)), sequence_col="n")
    messages = messages_of(broker, topic, 2)
    assert headers_by_value(messages) == {
        str(n).encode(): ("producer:events-3", epoch, n) for n, epoch in ((10, 1), (11, 1), (13, 1), (14, 2), (20, 2))
    }
    assert checked(messages) == [(5, 0, 6)]


def test_rows_of_a_batch_are_numbered_over_winners_pieces_and_topics_also_by_a_gateway_that_follows(
    broker: Broker, gateway: GatewayProcess
) -> None:
    first, second = broker.topic(3).topic, broker.topic().topic
    owns = pa.array([[("own", b"v")]] * 2, HEADERS)

    def chunk(*names: str) -> Any:
        return rows_of(*names).append_column("topic", [[first, second]]).append_column("headers", owns)

    with client_of(gateway) as client:
        one, two, lost = (Batch(client, "a-sink", version=42) for _ in range(3))
        for task, names in ((one, "ab"), (two, "ef"), (one, "cd"), (lost, "xy"), (two, "gh")):
            task.stage(chunk(*names))
        gateway.kill()
        gateway.start()
        assert one.commit(two).outcome == "COMMITTED"
        again = Batch(client, "a-sink", run="another", version=42)
        for names in ("ef", "gh", "ab", "cd"):
            again.stage(chunk(*names))
        assert again.commit().outcome == "DUPLICATE"
    messages = [*messages_of(broker, first, 3), *messages_of(broker, second, 1)]
    wanted = {name.encode(): ('batch:["app","a-sink",""]', 42, place) for place, name in enumerate("abcdefgh")}
    assert headers_by_value(messages) == wanted
    assert checked(messages) == [(8, 0, 0)]
    assert {message.headers()[0] for message in messages} == {("own", b"v")}


def test_a_header_that_is_named_as_the_gateways_is_refused_before_any_effect(
    broker: Broker, gateway: GatewayProcess
) -> None:
    topic = broker.topic().topic
    own = pa.array([[], [("oncegate-seq", b"7")], []], HEADERS)
    table = rows_of("a", "b", "c").append_column("headers", own)
    with client_of(gateway) as client:
        with client.attempt() as attempt:
            for more in ({}, {"id_col": "key"}):
                with pytest.raises(OncegateError, match="row 1 has a header 'oncegate-seq'") as refused:
                    attempt.produce(topic, table, **more)
                assert refused.value.code == "BAD_REQUEST"
        with pytest.raises(OncegateError, match="row 1 has a header 'oncegate-seq'"):
            Batch(client, topic).stage(table)
    assert broker.committed(Partition(topic, 0)) == []
    with client_of(gateway, "default") as client, client.attempt() as attempt:
        attempt.produce(topic, table)
    assert [message.headers() for message in messages_of(broker, topic, 1)] == [None, [("oncegate-seq", b"7")], None]


def test_a_row_that_has_no_room_for_its_headers_is_refused_before_any_effect(
    broker: Broker, gateway: GatewayProcess
) -> None:
    topic, table = broker.topic().topic, pa.table({"value": [b"x" * 899_880]})
    with client_of(gateway) as client:
        with client.attempt() as attempt, pytest.raises(OncegateError, match=r"takes .* bytes as a record"):
            attempt.produce(topic, table)
        with pytest.raises(OncegateError, match=r"takes .* bytes as a record"):
            Batch(client, topic).stage(table)
    with client_of(gateway, "default") as client, client.attempt() as attempt:
        assert attempt.produce(topic, table).rows == 1


def test_a_namespace_asks_for_headers_before_anything_is_written(broker: Broker, gateway: GatewayProcess) -> None:
    topic = broker.topic().topic
    with client_of(gateway, "late") as client:
        client.create_namespace()
        assert client.describe()["record_headers"] is False
        with client.attempt() as attempt:
            attempt.produce(topic, rows_of("a"))
        with pytest.raises(OncegateError, match="before anything is written"):
            client.create_namespace(record_headers=True)
        assert client.describe()["record_headers"] is False


def test_a_gateway_with_topics_of_its_own_refuses_the_setting_by_its_name(tmp_path: Path) -> None:
    with GatewayProcess(tmp_path) as gateway, client_of(gateway) as client:
        with pytest.raises(OncegateError, match="record_headers are headers of Kafka records") as refused:
            client.create_namespace(record_headers=True)
        assert refused.value.code == "BAD_REQUEST"


async def test_headers_are_the_same_whether_an_append_is_found_written_or_is_sent_again(
    proxy: KafkaProxy, broker: Broker
) -> None:
    topic, prefix = broker.topic().topic, Prefix(broker)
    staged, direct, more = range_of("a", "b"), range_of("c"), range_of("d")
    origin = Origin("marked", 'batch:["app","t",""]', 3)
    send = SendRanges(topic, (staged.range_id, direct.range_id), origin)
    async with prefix.opened(proxied=True) as opened:
        await opened.ledger.append([b"staged"], [staged])
        proxy.hold(END_TXN, cut=True)
        with pytest.raises(LedgerFull, match="nothing was written"):
            await opened.ledger.append([b"committed"], [direct, send])
        proxy.release()
        proxy.lose_answer(END_TXN)
        await opened.ledger.append([b"again"], [direct, send])
        await opened.ledger.append([b"next"], [more, SendRanges(topic, (more.range_id,), Origin("marked", "p", 3, 3))])
    messages = messages_of(broker, topic, 1)
    batch = origin.producer
    assert headers_by_value(messages) == {
        b"a": (batch, 3, 0),
        b"b": (batch, 3, 1),
        b"c": (batch, 3, 2),
        b"d": ("p", 3, 3),
    }
