"""`oncegate serve` over a ledger on Kafka: killed, restarted, without brokers, and with a second gateway."""

import itertools
import json
import signal
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from oncegate.ledgers.kafka.partition import Partition
from oncegate_spark import Gateway
from oncegate_spark.errors import OncegateError
from tests.support.gateway_process import GatewayProcess
from tests.support.kafka_broker import Broker
from tests.support.otlp_receiver import otlp_over_http

pytestmark = pytest.mark.slow
ROUNDS = 2


def url(broker: Broker, prefix: str) -> str:
    options = "replication=1&min_insync=1&bare_key=yes&send_ms=3000&commit_ms=3000"
    return f"kafka://{broker.cluster.bootstrap}/{prefix}?{options}"


def write(gateway: GatewayProcess, topic: str, ids: list[str], timeout_ms: int = 60_000) -> int:
    """Produces rows by id and returns the number of new ones."""
    rows = pa.table({"key": ids, "value": ids})
    with Gateway(gateway.url, timeout_ms=timeout_ms) as client, client.attempt() as attempt:
        return attempt.produce(topic, rows, id_col="key").rows


def test_written_rows_are_known_and_read_after_each_kill(broker: Broker, tmp_path: Path) -> None:
    partition = broker.topic()
    topic = partition.topic
    with GatewayProcess(tmp_path, ledger=url(broker, "killed")) as gateway:
        for number in range(ROUNDS):
            ids = [f"{number}-{row}" for row in range(1_000)]
            assert write(gateway, topic, ids) == len(ids)
            gateway.kill()
            gateway.start()
            assert write(gateway, topic, [*ids, f"{number}-new"]) == 1
        assert sorted(broker.committed(partition)) == sorted(
            f"{number}-{row}".encode() for number in range(ROUNDS) for row in [*range(1_000), "new"]
        )
        assert "acknowledged by the in-sync replicas" in gateway.log
        assert "keys BARE" in gateway.log
        assert gateway.stop() == 0


def test_unavailable_brokers_are_reported_and_everything_continues_by_itself(broker: Broker, tmp_path: Path) -> None:
    partition = broker.topic()
    topic = partition.topic
    with GatewayProcess(tmp_path, ledger=url(broker, "away")) as gateway:
        assert write(gateway, topic, ["a"]) == 1
        # Read, so that the markers of earlier transactions exist.
        for read in (partition, Partition("away.default.ledger", 0)):
            assert broker.committed(read)
        broker.cluster.kill_node(1)
        try:
            with pytest.raises(OncegateError):
                write(gateway, topic, ["b"], timeout_ms=10_000)
            assert gateway.is_ready()
            status, namespace = gateway.ask("GET", "/v1/namespaces/default")
            assert (status, "brokers" in namespace["failing"]["room"]) == (200, True), namespace
        finally:
            broker.cluster.start_node(1)
        assert write(gateway, topic, ["a", "b"]) == 1
        assert "ledger_full" in gateway.log
        assert "ledger_has_room" in gateway.log


def test_a_superseded_gateway_reports_that_and_answers_nothing_more(broker: Broker, tmp_path: Path) -> None:
    for folder in (older := tmp_path / "older", newer := tmp_path / "newer"):
        folder.mkdir()
    ledger, topic = url(broker, "followed"), broker.topic().topic
    with GatewayProcess(older, ledger=ledger) as first:
        assert write(first, topic, ["a"]) == 1
        with GatewayProcess(newer, ledger=ledger) as second:
            with pytest.raises(OncegateError, match="another gateway owns"):
                write(first, topic, ["b"], timeout_ms=10_000)
            assert not first.is_ready()
            assert write(second, topic, ["a", "b"]) == 1


def test_a_gateway_that_slept_while_it_was_superseded_answers_nothing_from_memory(
    broker: Broker, tmp_path: Path
) -> None:
    for folder in (older := tmp_path / "older", newer := tmp_path / "newer"):
        folder.mkdir()
    ledger = url(broker, "slept")
    with GatewayProcess(older, ledger=ledger) as first, closing(HTTPConnection(first.url[7:], timeout=60)) as asked:
        assert claimed(asked)["verdicts"] == [{"verdict": "GRANTED"}]
        first.signal(signal.SIGSTOP)
        try:
            with GatewayProcess(newer, ledger=ledger):
                ask(asked)
                first.signal(signal.SIGCONT)
                reply = asked.getresponse()
                problem = json.loads(reply.read())
                assert (reply.status, problem["code"], problem["action"]) == (503, "LEDGER_FENCED", "retry"), problem
                assert (problem["effect"], reply.headers["connection"]) == ("none", "close"), problem
        finally:
            first.signal(signal.SIGCONT)


def ask(asked: HTTPConnection) -> None:
    """Sends the same claim each time, without waiting for the answer."""
    body = json.dumps({"token": "0" * 32, "call": 0, "ids": ["a"]})
    asked.request("POST", "/v1/namespaces/default/ids:claim", body, {"Content-Type": "application/json"})


def answer(asked: HTTPConnection) -> Any:
    return json.loads(asked.getresponse().read())


def claimed(asked: HTTPConnection) -> Any:
    ask(asked)
    return answer(asked)


def test_without_brokers_a_start_ends_with_one_line(tmp_path: Path) -> None:
    gateway = GatewayProcess(tmp_path, ledger="kafka://127.0.0.1:1/nobody?bare_key=yes")
    with pytest.raises(AssertionError, match="cannot be used now: none of these brokers can be connected to"):
        gateway.start()
    assert "Traceback" not in gateway.log
    assert gateway.log.count("127.0.0.1:1/nobody") == 1, "they are named once"


def test_a_transaction_is_a_span_below_the_append_of_the_request_that_it_commits(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    names = ("POST /v1/namespaces/{namespace}/ids:claim", "claim", "group commit", "append", "kafka transaction")
    with otlp_over_http() as receiver:
        for name, value in receiver.environ.items():
            monkeypatch.setenv(name, value)
        with GatewayProcess(tmp_path, ledger=url(broker, "traced")) as gateway:
            assert posted_claim(gateway, traceparent=f"00-{trace}-00f067aa0ba902b7-01") == 200
            spans = receiver.wait_for(*names, trace_id=trace)
    for above, below in itertools.pairwise(names):
        assert spans[below].parent_id == spans[above].span_id, (above, below)
    assert spans["kafka transaction"].attributes["messaging.system"] == "kafka"


def posted_claim(gateway: GatewayProcess, **headers: str) -> int:
    """Claims one id and returns the status."""
    body = json.dumps({"token": "6f1c0000000000000000000000000001", "call": 0, "ids": ["a-1"]})
    with closing(HTTPConnection("127.0.0.1", gateway.port, timeout=60)) as connection:
        path = "/v1/namespaces/default/ids:claim"
        connection.request("POST", path, body, {"content-type": "application/json", **headers})
        return connection.getresponse().status
