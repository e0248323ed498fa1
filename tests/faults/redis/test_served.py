"""`oncegate serve` over a ledger on Redis: killed, without its server, full, flushed, and with a second gateway."""

from pathlib import Path

import pyarrow as pa
import pytest

from oncegate_spark import Gateway
from oncegate_spark.errors import OncegateError
from tests.support.gateway_process import GatewayProcess
from tests.support.redis_server import RedisServer

pytestmark = pytest.mark.slow
ROUNDS = 2


def gateway_at(server: RedisServer, prefix: str, folder: Path) -> GatewayProcess:
    folder.mkdir(exist_ok=True)
    url = f"redis://{server.address}/{prefix}?bare_key=yes"
    return GatewayProcess(folder, "--witness", str(folder / "witness"), ledger=url)


def write(gateway: GatewayProcess, ids: list[str], timeout_ms: int = 60_000) -> int:
    """Produces rows by id and returns the number of new ones."""
    rows = pa.table({"key": ids, "value": ids})
    with Gateway(gateway.url, timeout_ms=timeout_ms) as client, client.attempt() as attempt:
        return attempt.produce("t", rows, id_col="key").rows


def test_written_rows_are_known_and_read_after_each_kill(server: RedisServer, tmp_path: Path) -> None:
    """The gateway, the server, and both are killed; the rows are on the server too."""
    with gateway_at(server, "killed", tmp_path) as gateway:
        assert "NEW, EMPTY" in gateway.log
        assert "appendfsync no" in gateway.log
        assert "keys BARE" in gateway.log
        for number in range(ROUNDS):
            ids = [f"{number}-{row}" for row in range(1_000)]
            assert write(gateway, ids) == len(ids)
            gateway.kill()
            if number:
                server.restart()
            gateway.start()
            assert write(gateway, [*ids, f"{number}-new"]) == 1
        _, topic = gateway.ask("GET", "/v1/namespaces/default/topics/t")
        assert topic["high_offsets"] == [1_001 * ROUNDS]
        _, namespace = gateway.ask("GET", "/v1/namespaces/default")
        assert "appendfsync no" in namespace["durability"]
        assert gateway.stop() == 0


def test_a_restarted_server_is_read_again_and_everything_continues(server: RedisServer, tmp_path: Path) -> None:
    with gateway_at(server, "anew", tmp_path) as gateway:
        assert write(gateway, ["a"]) == 1
        server.restart()
        assert write(gateway, ["a", "b"]) == 1
        assert gateway.is_alive


def test_an_unavailable_or_full_server_is_reported_and_everything_continues_by_itself(
    server: RedisServer, tmp_path: Path
) -> None:
    with gateway_at(server, "away", tmp_path) as gateway:
        assert write(gateway, ["a"]) == 1
        server.run("CONFIG", "SET", "maxmemory", 1)
        with pytest.raises(OncegateError):
            write(gateway, ["b"], timeout_ms=5_000)
        assert "ledger_full" in gateway.log
        server.run("CONFIG", "SET", "maxmemory", 0)
        assert write(gateway, ["a", "b"]) == 1
        server.kill()
        try:
            with pytest.raises(OncegateError):
                write(gateway, ["c"], timeout_ms=5_000)
        finally:
            server.start()
        assert write(gateway, ["a", "b", "c"]) == 1
        assert "Traceback" not in gateway.log


def test_a_flushed_server_answers_no_request_and_is_reported(server: RedisServer, tmp_path: Path) -> None:
    with gateway_at(server, "flushed", tmp_path) as gateway:
        assert write(gateway, ["a"]) == 1
        server.run("FLUSHALL")
        with pytest.raises(OncegateError, match="flushed"):
            write(gateway, ["b"], timeout_ms=10_000)
        assert not gateway.is_ready()
        gateway.kill()
        with pytest.raises(AssertionError, match="flushed"):
            gateway.start()
        assert "Traceback" not in gateway.log


def test_a_flushed_server_is_reported_without_any_request_or_write(server: RedisServer, tmp_path: Path) -> None:
    with gateway_at(server, "quiet", tmp_path) as gateway:
        assert write(gateway, ["a"]) == 1
        server.run("FLUSHALL")
        gateway.wait_until("is not ready", lambda: gateway.states()["default"] == "DOWN")
        assert "ledger_lost" in gateway.log
        assert "flushed" in gateway.log


def test_a_server_that_is_unavailable_without_writes_is_reported_until_it_is_back(
    server: RedisServer, tmp_path: Path
) -> None:
    with gateway_at(server, "quiet-away", tmp_path) as gateway:
        assert write(gateway, ["a"]) == 1
        with server.client() as control:
            control.execute_command("CONFIG", "SET", "maxclients", 1)
            try:
                control.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
                gateway.wait_until("is not ready", lambda: gateway.states()["default"] == "RECOVERING")
                gateway.wait_until("says so", lambda: "ledger_away" in gateway.log)
                assert "cannot be used now" in gateway.log
            finally:
                control.execute_command("CONFIG", "SET", "maxclients", 10_000)
        gateway.wait_until("is ready", gateway.is_ready)
        gateway.wait_until("says so", lambda: "ledger_reached" in gateway.log)
        assert write(gateway, ["a", "b"]) == 1
        assert "ledger_lost" not in gateway.log, "nothing was read again"
        server.kill()
        try:
            gateway.wait_until("is not ready", lambda: gateway.states()["default"] == "RECOVERING")
            gateway.wait_until("says so", lambda: gateway.log.count("ledger_away") == 2)
        finally:
            server.start()
        gateway.wait_until("is ready", gateway.is_ready)
        assert write(gateway, ["a", "b", "c"]) == 1


def test_an_evicting_policy_is_reported_without_writes(server: RedisServer, tmp_path: Path) -> None:
    with gateway_at(server, "evicts", tmp_path) as gateway:
        server.run("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
        try:
            gateway.wait_until("is not ready", lambda: gateway.states()["default"] == "RECOVERING")
        finally:
            server.run("CONFIG", "SET", "maxmemory-policy", "noeviction")
        assert write(gateway, ["a"]) == 1
        assert "allkeys-lru" in gateway.log


def test_a_superseded_gateway_reports_that_and_answers_nothing_more(server: RedisServer, tmp_path: Path) -> None:
    with gateway_at(server, "followed", tmp_path / "older") as first:
        assert write(first, ["a"]) == 1
        with gateway_at(server, "followed", tmp_path / "newer") as second:
            with pytest.raises(OncegateError, match="another gateway owns"):
                write(first, ["b"], timeout_ms=10_000)
            assert not first.is_ready()
            assert write(second, ["a", "b"]) == 1


def test_without_a_server_or_a_witness_a_start_ends_with_one_line(tmp_path: Path) -> None:
    for options, says in (("bare_key=yes&no_witness=yes", "cannot be used now"), ("bare_key=yes", "--witness")):
        gateway = GatewayProcess(tmp_path, ledger=f"redis://127.0.0.1:1/nobody?{options}")
        with pytest.raises(AssertionError, match=says):
            gateway.start()
        assert "Traceback" not in gateway.log
        assert gateway.log.count("redis://") <= 1, "the server is named once"
