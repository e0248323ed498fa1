"""Rows as JSON into a topic of a real broker: each column is accepted, and another client reads it unchanged."""

import base64
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from oncegate.ledgers.kafka.partition import Partition
from tests.support.gateway_process import GatewayProcess
from tests.support.kafka_broker import Broker
from tests.support.kafka_users import url

pytestmark = pytest.mark.slow

SEED = 20_261_128
_calls = count()


@pytest.fixture(scope="module")
def gateway(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with GatewayProcess(tmp_path_factory.mktemp("gateway"), ledger=url(broker, "json")) as gateway:
        yield gateway


def produce(gateway: GatewayProcess, topic: str, records: list[dict[str, Any]], **more: Any) -> tuple[int, Any]:
    """Produces rows and returns the status and the answer."""
    message = {"token": "0123456789abcdef0123456789abcdef", "call": next(_calls), "records": records, **more}
    request = urllib.request.Request(
        f"{gateway.url}/v1/namespaces/default/topics/{topic}/records:produce",
        json.dumps(message).encode(),
        {"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as refused:
        return refused.code, json.load(refused)


def encoded(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()


def test_every_column_of_a_record_is_written_as_it_is_sent(broker: Broker, gateway: GatewayProcess) -> None:
    topic, other = broker.topic(3).topic, broker.topic().topic
    at = datetime(2026, 11, 20, 8, 15, 0, 500_000, UTC)
    headers = [("h", b"\x00\xff"), ("h", b""), ("none", None)]
    shown = [{"key": name, "value": encoded(value)} for name, value in headers]
    record = {"key": "k", "value": "v", "headers": shown, "partition": 2, "timestamp": at.isoformat()}
    named = {"id_col": ["order"], "digest_col": ["cents"]}
    assert produce(gateway, topic, [{**record, "order": 17, "cents": 10}], **named)[1]["rows"] == 1
    [message] = broker.messages(Partition(topic, 2))
    assert (message.key(), message.value(), message.headers()) == (b"k", b"v", headers)
    assert message.timestamp()[1] == at.timestamp() * 1000
    for order, cents, verdict in [(17, 10, "DUPLICATE"), (17, 11, "CONFLICT"), ("17", "10", "DUPLICATE")]:
        _, answer = produce(gateway, topic, [{**record, "order": order, "cents": cents}], **named)
        assert [one["verdict"] for one in answer["verdicts"]] == [verdict]
    for order, cents in [(17.5, 10), (17, 10.5)]:
        status, refusal = produce(gateway, topic, [{**record, "order": order, "cents": cents}], **named)
        assert (status, refusal["effect"]) == (400, "none")
    assert produce(gateway, topic, [{"value": "there", "topic": other}])[1]["rows"] == 1
    assert broker.committed(Partition(other, 0)) == [b"there"]
    assert len(broker.messages(Partition(topic, 2))) == 1


@pytest.mark.parametrize("beside", [[], [{"value": "v"}], [{"key": "k", "value": "v", "partition": 0}]])
def test_a_tombstone_is_one_alone_and_beside_other_rows(
    broker: Broker, gateway: GatewayProcess, beside: list[dict[str, Any]]
) -> None:
    topic = broker.topic().topic
    rows = [{"key": "gone", "value": None, "headers": None, "partition": None, "timestamp": None}, *beside]
    assert produce(gateway, topic, rows)[1]["rows"] == len(rows)
    found = {message.key(): message.value() for message in broker.messages(Partition(topic, 0))}
    assert (len(found), found[b"gone"]) == (len(rows), None)
    status, refusal = produce(gateway, topic, [{"key": None, "value": "v"}, *beside], id_col=["key"])
    assert (status, refusal["code"], refusal["places"][0]) == (422, "NULL_ID", 0)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"value": {"a": 1}}, "row 1: column 'value' cannot be {\"a\": 1}"),
        ({"value": 5}, "row 1: column 'value'"),
        ({"partition": 0.5}, "row 1: column 'partition'"),
        ({"partition": "0"}, "row 1: column 'partition'"),
        ({"headers": {"h": "AA=="}}, "row 1: column 'headers'"),
        ({"headers": [{"key": "h", "value": "not base64"}]}, "row 1: column 'headers[0].value'"),
        ({"headers": [{"key": "h"}, {"key": "h", "text": "x"}]}, "row 1: column 'headers[1].text'"),
        ({"timestamp": "2026-11-20T08:15:00"}, "row 1: column 'timestamp'"),
        ({"timestamp": "2026-11-20T08:15:00.0001Z"}, "row 1: column 'timestamp'"),
        ({"timestamp": 1_764_316_800_000}, "row 1: column 'timestamp'"),
        ({"carrier": None}, "none of a Kafka record's"),
        ({"headers": [{"value": "AA=="}]}, "a header without a key in row 1"),
    ],
)
def test_a_value_that_a_record_cannot_have_is_refused_with_its_place(
    broker: Broker, gateway: GatewayProcess, more: dict[str, Any], words: str
) -> None:
    topic = broker.topic().topic
    status, refusal = produce(gateway, topic, [{"value": "v"}, {"value": "w", **more}])
    assert (status in (400, 409), refusal["effect"]) == (True, "none")
    assert words in refusal["detail"]
    assert broker.messages(Partition(topic, 0)) == []


TEXTS = st.none() | st.text(max_size=5)
HEADERS = st.none() | st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=4)), max_size=2)
TIMES = st.none() | st.integers(0, 4_000_000_000_000)
RECORDS = st.lists(st.tuples(TEXTS, TEXTS, HEADERS, TIMES), min_size=1, max_size=5)


def test_whatever_records_are_sent_another_client_reads_the_same(broker: Broker, gateway: GatewayProcess) -> None:
    print(f"seed {SEED}")

    @seed(SEED)
    @settings(max_examples=40, database=None, deadline=None)
    @given(RECORDS)
    def runs(sent: list[Any]) -> None:
        topic = broker.topic().topic
        rows = []
        for key, value, headers, ms in sent:
            shown = headers and [{"key": name, "value": encoded(one)} for name, one in headers]
            at = None if ms is None else datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=ms)
            time = at if at is None else at.isoformat()
            rows.append({"key": key, "value": value, "headers": shown, "timestamp": time})
        assert produce(gateway, topic, rows)[1]["rows"] == len(rows)
        messages = broker.messages(Partition(topic, 0))
        for (key, value, headers, ms), message in zip(sent, messages, strict=True):
            texts = [None if one is None else one.encode() for one in (key, value)]
            assert [message.key(), message.value(), message.headers() or []] == [*texts, headers or []]
            assert ms is None or message.timestamp()[1] == ms

    runs()
