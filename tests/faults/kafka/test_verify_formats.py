"""`oncegate verify --against` of topics with values that a schema registry knows, at brokers with TLS and users."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from google.type.money_pb2 import Money
from typer.testing import CliRunner

from deploy.kafka.access import Access
from oncegate.cli import app
from oncegate_spark import Gateway, formats
from tests.support.gateway_process import GatewayProcess
from tests.support.kafka_broker import Broker, one_broker
from tests.support.schema_registry import Registry, schema_registry
from tests.support.verified import run

pytestmark = pytest.mark.slow
ROWS = 200
FIELDS = [{"name": "currency_code", "type": "string"}, {"name": "units", "type": "long"}]
AVRO = json.dumps({"type": "record", "name": "Money", "fields": FIELDS})
JSON = json.dumps({"type": "object", "title": "Money", "properties": {"currency_code": {"type": "string"}}})


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with one_broker(tmp_path_factory.mktemp("kafka"), Access(sasl=True, tls=True)) as broker:
        yield broker


@pytest.fixture(scope="module")
def gateway(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    query = broker.cluster.access.query(broker.cluster.files)
    url = f"kafka://{broker.cluster.bootstrap}/formats?replication=1&min_insync=1&bare_key=yes&{query}"
    with GatewayProcess(tmp_path_factory.mktemp("gateway"), ledger=url) as process:
        yield process


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    with schema_registry() as registry:
        yield registry


def made(kind: str, registry: Registry) -> Any:
    if kind == "protobuf":
        return formats.protobuf(registry.url, "money-value", Money)
    schema = AVRO if kind == "avro" else JSON
    return getattr(formats, kind)(registry.url, f"{kind}-value", schema)


@pytest.mark.parametrize(
    ("kind", "output_id"),
    [
        ("json", "json:currency_code"),
        ("json", "key"),
        ("avro", "header:id"),
        ("avro", "avro:currency_code"),
        ("protobuf", "protobuf:currency_code"),
    ],
)
def test_the_id_is_found_beside_or_in_a_value_that_a_registry_knows(
    broker: Broker, gateway: GatewayProcess, registry: Registry, tmp_path: Path, kind: str, output_id: str
) -> None:
    topic = broker.topic(partitions=2).topic
    ids = [f"o-{n}" for n in range(ROWS)]
    values = formats.encode(made(kind, registry), pa.table({"currency_code": ids, "units": range(ROWS)}))
    assert values[0].as_py()[:1] == b"\0", "a registry's number precedes the value"
    headers = pa.array([[{"key": "id", "value": one.encode()}] for one in ids])
    rows = pa.table({"key": ids, "value": values, "headers": headers})
    pa.parquet.write_table(rows, tmp_path / "given.parquet")
    with Gateway(gateway.url, timeout_ms=60_000) as client, client.attempt() as attempt:
        attempt.produce(topic, rows.slice(0, ROWS - 1), id_col="key")
        attempt.produce(topic, rows.slice(7, 1))
    query = broker.cluster.access.query(broker.cluster.files)
    where = f"kafka://{broker.cluster.bootstrap}/{topic}"
    asked = ["--against", topic, "--url", gateway.url, "--input", str(tmp_path / "given.parquet"), "--id-col", "key"]
    asked += ["--output-id", output_id, "--state", str(tmp_path / "state"), "--json"]
    known = ["--registry", registry.url] if output_id.startswith(kind) and kind != "json" else []
    status, out, err = run(*asked, *known, "--output", f"{where}?{query}")
    assert out, err
    report = json.loads(out)
    found = {kind: count for kind, count in report["ids"].items() if count}
    assert (status, found, report["without_id"]) == (1, {"ok": ROWS - 2, "not_written": 1, "doubled": 1}, 0)
    assert [one["id"] for one in report["findings"]["doubled"]] == ["o-7"]
    if known:
        words = ["audit", f"{where}?{query}", "--id", output_id, *known, "--json"]
        counted = json.loads(CliRunner().invoke(app, words, prog_name="oncegate").stdout)
        assert (counted["ids"], counted["duplicates"], counted["without_id"]) == (ROWS - 1, 1, 0)


def test_a_registry_that_fails_meanwhile_costs_no_input_and_the_same_command_continues(
    broker: Broker, gateway: GatewayProcess, registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oncegate.verifier.sources.registry.RETRIES", 0)
    topic = broker.topic().topic
    ids = [f"o-{n}" for n in range(ROWS)]
    values = formats.encode(made("avro", registry), pa.table({"currency_code": ids, "units": range(ROWS)}))
    rows = pa.table({"key": ids, "value": values})
    pa.parquet.write_table(rows, tmp_path / "given.parquet")
    with Gateway(gateway.url, timeout_ms=60_000) as client, client.attempt() as attempt:
        attempt.produce(topic, rows, id_col="key")
    query = broker.cluster.access.query(broker.cluster.files)
    asked = ["--against", topic, "--url", gateway.url, "--input", str(tmp_path / "given.parquet"), "--id-col", "key"]
    asked += ["--output", f"kafka://{broker.cluster.bootstrap}/{topic}?{query}", "--output-id", "avro:currency_code"]
    asked += ["--registry", registry.url, "--state", str(tmp_path / "state"), "--json"]
    registry.is_failing = True
    status, out, err = run(*asked)
    registry.is_failing = False
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert "progress is saved" in err
    assert json.loads((tmp_path / "state" / "state.json").read_text())["stage"] == "output"
    status, out, err = run(*asked)
    assert (status, json.loads(out)["ids"]["ok"]) == (0, ROWS), err
    assert not (tmp_path / "state").exists()


def test_brokers_that_require_more_than_the_address_has_are_named(
    broker: Broker, gateway: GatewayProcess, tmp_path: Path
) -> None:
    topic = broker.topic().topic
    pa.parquet.write_table(pa.table({"key": ["a"]}), tmp_path / "given.parquet")
    (tmp_path / "wrong").write_text("wrong\n")
    asked = ["--against", topic, "--url", gateway.url, "--input", str(tmp_path / "given.parquet"), "--id-col", "key"]
    asked += ["--output-id", "key", "--state", str(tmp_path / "state")]
    query = broker.cluster.access.query(broker.cluster.files)
    password = str(broker.cluster.files.password_file("oncegate"))
    wrong = query.replace(password, str(tmp_path / "wrong"))
    assert wrong != query
    status, out, err = run(*asked, "--output", f"kafka://{broker.cluster.bootstrap}/{topic}?{wrong}")
    assert (status, out) == (1, "")
    assert err.count("\n") == 1
    assert f"the brokers of {topic} refuse" in err
