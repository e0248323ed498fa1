"""A real server that goes away, and the unchecked grants in between: in answers, in the ledger and in the log."""

import signal
from pathlib import Path

import pyarrow as pa
import pytest

from oncegate_spark import Gateway, Unavailable
from oncegate_spark.delivery import Delivery, FolderSink, Record
from tests.support.gateway_process import GatewayProcess
from tests.support.redis_server import RedisServer


def trail(gateway: GatewayProcess) -> list[dict[str, object]]:
    _, answer = gateway.ask("GET", "/v1/namespaces/default/audit")
    return [one for one in answer["actions"] if one["action"] == "pass unchecked"]


def test_claims_pass_marked_while_the_server_is_away_and_are_decided_and_noted_when_it_is_back(
    server: RedisServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    url = f"redis://{server.address}/unchecked?bare_key=yes"
    with (
        GatewayProcess(tmp_path, "--witness", str(tmp_path / "witness"), ledger=url) as process,
        Gateway(process.url, timeout_ms=60_000) as gateway,
        Gateway(process.url, on_down="fail") as impatient,
    ):
        gateway.create_namespace(on_ledger_down="pass_marked")
        with gateway.attempt() as attempt:
            attempt.complete(attempt.claim(["done"]))
        sink = FolderSink(tmp_path / "sink")
        Delivery(gateway, sink).deliver([Record("d", b"1")])
        server.kill()
        try:
            with gateway.attempt() as attempt:
                claimed = attempt.claim(["done", "new"])
                assert claimed.granted == claimed.unchecked == ["done", "new"]
                assert claimed.in_doubt == []
                attempt.complete(claimed)
            assert "2 ids granted unchecked" in caplog.text
            delivered = Delivery(gateway, sink).deliver([Record("d", b"1"), Record("e", b"2")])
            assert (delivered.written, delivered.found, delivered.unchecked) == (1, 1, 2), "the sink was asked first"
            with pytest.raises(Unavailable):
                impatient.take("job", ["a"])
            with pytest.raises(Unavailable), impatient.attempt() as attempt:
                attempt.produce("t", pa.table({"id": ["a"]}), id_col="id")
            assert "passing_unchecked" in process.log
        finally:
            server.start()
        process.wait_until("serves again", process.is_ready)
        with gateway.attempt() as attempt:
            claimed = attempt.claim(["done", "new"])
            assert (claimed.dropped, claimed.granted, claimed.unchecked) == (["done"], ["new"], [])
            attempt.complete(claimed)
        assert gateway.describe()["counters"]["unchecked_ids"] == 4
        process.wait_until("has noted it", lambda: bool(trail(process)))
        (noted,) = trail(process)
        assert (noted["changed"], noted["who"]) == (4, "callers without a key")
        process.signal(signal.SIGKILL)
        process.kill()
        process.start()
        assert trail(process) == [noted]
