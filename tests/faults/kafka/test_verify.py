"""`oncegate verify --against`, and `audit`, of a user's topic on a real broker: errors are planted, found and
repaired."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner

from oncegate.cli import app
from oncegate_spark import Gateway
from tests.support.gateway_process import GatewayProcess
from tests.support.kafka_broker import WAIT_S, Broker
from tests.support.verified import run

pytestmark = pytest.mark.slow
ROWS = 500


def url(broker: Broker, prefix: str) -> str:
    options = "replication=1&min_insync=1&bare_key=yes&send_ms=3000&commit_ms=3000"
    return f"kafka://{broker.cluster.bootstrap}/{prefix}?{options}"


def row_of(number: int) -> dict[str, object]:
    headers = [{"key": "order-id", "value": f"o-{number}".encode()}]
    return {"key": f"o-{number}", "value": json.dumps({"order": f"o-{number}", "n": number}), "headers": headers}


def table_of(*numbers: int) -> pa.Table:
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    schema = pa.schema([("key", pa.string()), ("value", pa.string()), ("headers", kind)])
    return pa.Table.from_pylist([row_of(number) for number in numbers], schema)


def produce_past_the_gateway(broker: Broker, topic: str, *numbers: int) -> None:
    """Writes the same records with a plain producer of another library, without the gateway."""
    producer = Producer({"bootstrap.servers": broker.cluster.bootstrap})
    for number in numbers:
        row = row_of(number)
        headers = [("order-id", f"o-{number}".encode())]
        producer.produce(topic, str(row["value"]), str(row["key"]), headers=headers)
    assert producer.flush(WAIT_S) == 0


@pytest.mark.parametrize("output_id", ["key", "header:order-id", "json:order"])
def test_planted_faults_in_a_users_topic_are_found_and_what_is_missing_is_repaired(
    broker: Broker, tmp_path: Path, output_id: str
) -> None:
    topic = broker.topic(partitions=3).topic
    given = tmp_path / "orders.parquet"
    pa.parquet.write_table(table_of(*range(ROWS)), given)
    prefix = "verify-" + output_id.replace(":", "-")
    with GatewayProcess(tmp_path, ledger=url(broker, prefix)) as gateway:
        with Gateway(gateway.url) as client, client.attempt() as attempt:
            attempt.produce(topic, table_of(*range(ROWS - 2)), id_col="key")
        with Gateway(gateway.url) as client:
            attempt = client.attempt(id_set=topic)
            attempt.complete(attempt.claim([f"o-{ROWS - 2}"]))
        produce_past_the_gateway(broker, topic, 3, 9_000)
        asked = ["--against", topic, "--url", gateway.url, "--input", str(given), "--id-col", "key"]
        asked += ["--output", f"kafka://{broker.cluster.bootstrap}/{topic}", "--output-id", output_id]
        asked += ["--state", str(tmp_path / "state"), "--json"]
        status, out, err = run(*asked, "--repair")
        assert out, err
        report = json.loads(out)
        assert status == 1, err
        assert {kind: count for kind, count in report["ids"].items() if count} == {
            "ok": ROWS - 3, "missing": 1, "not_written": 1, "doubled": 1, "foreign": 1,
        }  # fmt: skip
        assert [one["id"] for one in report["findings"]["missing"]] == [f"o-{ROWS - 2}"]
        assert [one["id"] for one in report["findings"]["not_written"]] == [f"o-{ROWS - 1}"]
        assert [(one["id"], len(one["places"])) for one in report["findings"]["doubled"]] == [("o-3", 2)]
        assert [one["id"] for one in report["findings"]["foreign"]] == ["o-9000"]
        assert report["repaired"] == {"written": 1, "refused": 1, "held": 0}
        status, out, err = run(*asked)
        assert out, err
        report = json.loads(out)
        assert {kind: count for kind, count in report["ids"].items() if count} == {
            "ok": ROWS - 2, "missing": 1, "doubled": 1, "foreign": 1,
        }  # fmt: skip


def test_records_without_the_id_are_counted_and_a_whole_topic_is_well(broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic(partitions=2).topic
    given = tmp_path / "orders.parquet"
    pa.parquet.write_table(table_of(*range(ROWS)), given)
    with GatewayProcess(tmp_path, ledger=url(broker, "verify-whole")) as gateway:
        with Gateway(gateway.url) as client, client.attempt() as attempt:
            attempt.produce(topic, table_of(*range(ROWS)), id_col="key")
        asked = ["--against", topic, "--url", gateway.url, "--input", str(given), "--id-col", "key"]
        asked += ["--output", f"kafka://{broker.cluster.bootstrap}/{topic}", "--output-id", "json:order"]
        asked += ["--state", str(tmp_path / "state"), "--json"]
        status, out, err = run(*asked)
        assert (status, json.loads(out)["ids"]["ok"]) == (0, ROWS), err
        producer = Producer({"bootstrap.servers": broker.cluster.bootstrap})
        for value in (b"no JSON", b'{"order": null}', b'{"order": 1.5}', None):
            producer.produce(topic, value, b"k")
        assert producer.flush(WAIT_S) == 0
        status, out, err = run(*asked)
        assert out, err
        report = json.loads(out)
        assert (status, report["without_id"], report["ids"]["ok"]) == (1, 4, ROWS), err


def test_an_audit_counts_what_was_committed_by_age_and_by_who_wrote_it(broker: Broker) -> None:
    topic = broker.topic(partitions=2).topic
    day_ms = 86_400_000
    producer = Producer({"bootstrap.servers": broker.cluster.bootstrap, "transactional.id": "audit"})
    producer.init_transactions(WAIT_S)
    for order, written_ms, attempt, is_committed in (
        ("a", day_ms, "t1", True), ("a", day_ms + 60_000, "t1", True), ("a", 9 * day_ms, "t2", True),
        ("b", day_ms, "t1", True), ("b", day_ms, "t1", False), ("c", day_ms, "t1", False), (None, day_ms, "t1", True),
    ):  # fmt: skip
        producer.begin_transaction()
        headers = [("attempt", attempt.encode()), ("batch", b"7")]
        producer.produce(topic, "x", order, partition=order == "a", timestamp=written_ms, headers=headers)
        producer.commit_transaction(WAIT_S) if is_committed else producer.abort_transaction(WAIT_S)
    words = [f"kafka://{broker.cluster.bootstrap}/{topic}", "--attempt", "attempt", "--batch", "batch", "--json"]
    result = CliRunner().invoke(app, ["audit", *words], prog_name="oncegate")
    assert result.exit_code == 0, result.stderr
    answer = json.loads(result.stdout)
    counted = {name: answer[name] for name in ("rows", "without_id", "ids", "duplicates")}
    assert counted == {"rows": 5, "without_id": 1, "ids": 2, "duplicates": 2}
    assert {name: count for name, count in answer["ages"].items() if count} == {"a minute": 1, "30 days": 1}
    assert answer["causes"] == {"UPSTREAM": 1, "TASK_RETRY": 1}
    assert answer["caught"] == {"1h": 1, "6h": 1, "1d": 1, "7d": 1, "30d": 2}
