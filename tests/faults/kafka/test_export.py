"""`oncegate export` of a ledger on Kafka: read from the brokers while its gateway runs, and imported elsewhere."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from oncegate.cli import app
from oncegate.ledgers.kafka.partition import Partition
from oncegate.testing import LocalGateway
from oncegate_spark import Gateway
from tests.support.kafka_broker import Broker
from tests.support.kafka_ledger import Prefix

pytestmark = pytest.mark.slow
WHY = ("--reason", "moved")


def run(*words: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, [*map(str, words)], prog_name="oncegate")
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture(scope="module")
def prefix(broker: Broker) -> Prefix:
    return Prefix(broker)


@pytest.fixture(scope="module")
def gateway(prefix: Prefix) -> Iterator[LocalGateway]:
    with LocalGateway(f"kafka:{prefix.place()}") as gateway:
        yield gateway


def test_ids_that_a_ledger_on_kafka_knows_are_known_where_they_are_imported(
    gateway: LocalGateway, prefix: Prefix, tmp_path: Path
) -> None:
    with Gateway(gateway.url) as client:
        attempt = client.attempt()
        attempt.complete(attempt.claim([f"o-{number}" for number in range(300)]))
        client.take("job", ["t-1", "t-2"])
        topics = prefix.frames, prefix.states, f"{prefix.name}.namespaces"
        before = [prefix.broker.ends(topic) for topic in topics[:2]]
        words = ("export", "--ledger", f"kafka:{prefix.place()}", "--to", tmp_path / "ids.parquet")
        status, out, err = run(*words, "--json")
        assert status == 0, err
        assert json.loads(out)["ids"] == 302
        assert [prefix.broker.ends(topic) for topic in topics[:2]] == before, "nothing was written to its topics"
        held = attempt.claim(["open"])
        assert list(held.granted) == ["open"], "nobody was fenced"
        assert "1 claims are open" in run(*words)[2]
        attempt.complete(held)
    with LocalGateway() as elsewhere:
        here = ("--url", elsewhere.url, "--namespace", "moved", *WHY)
        assert run("import", tmp_path / "ids.parquet", *here)[0] == 0
        with Gateway(elsewhere.url, namespace="moved") as client:
            claimed = client.attempt().claim(["o-0", "o-299", "new"])
            assert list(claimed.granted) == ["new"]


def test_a_namespace_that_is_not_there_and_ledgers_that_are_not_exported_are_refused(
    gateway: LocalGateway, prefix: Prefix, tmp_path: Path
) -> None:
    to = ("--to", tmp_path / "ids.parquet")
    status, _, err = run("export", "--ledger", f"kafka:{prefix.place()}", "--namespace", "none", *to)
    assert (status, "there is no namespace none" in err) == (1, True), err
    status, _, err = run("export", "--ledger", "redis://127.0.0.1:1/x?bare_key=yes", *to)
    assert (status, "a ledger redis: is not exported" in err) == (1, True), err
    assert not list(tmp_path.iterdir())
    assert prefix.broker.messages(Partition(prefix.frames, 0))
