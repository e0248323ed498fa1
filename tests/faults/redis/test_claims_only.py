"""A ledger on Redis with outputs=none keeps claims, refuses rows by name, and does not touch existing ones."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from oncegate_spark import Gateway
from oncegate_spark.errors import NotFound, Refused
from tests.support.gateway_process import GatewayProcess
from tests.support.redis_server import RedisServer
from tests.support.staged_batches import Batch

pytestmark = pytest.mark.slow
ROWS = pa.table({"key": ["a", "b"], "value": ["a", "b"]})


def gateway_at(server: RedisServer, prefix: str, folder: Path, outputs: str) -> GatewayProcess:
    url = f"redis://{server.address}/{prefix}?bare_key=yes&outputs={outputs}"
    return GatewayProcess(folder, "--witness", str(folder / "witness"), ledger=url)


def is_refused(write: Callable[[], object], says: str = "outputs=none") -> None:
    with pytest.raises(Refused, match=says):
        write()


def test_claims_are_kept_and_rows_are_refused_before_any_effect(server: RedisServer, tmp_path: Path) -> None:
    with gateway_at(server, "claims", tmp_path, "none") as gateway:
        with Gateway(gateway.url) as client, client.attempt() as attempt:
            is_refused(lambda: attempt.produce("t", ROWS, id_col="key"))
            is_refused(lambda: attempt.produce("t", ROWS, key_col="key"))
            is_refused(lambda: Batch(client, "t").stage(ROWS))
            is_refused(lambda: client.create_topic("t"), "switched off")
            with pytest.raises(NotFound, match="outputs=none"):
                client.fetch("t")
            claimed = attempt.claim(["a", "b"])
            assert len(claimed.granted) == 2
            attempt.complete(claimed)
        assert not server.run("EXISTS", "{claims/default/1}:rows")
        gateway.kill()
        gateway.start()
        with Gateway(gateway.url) as client, client.attempt() as attempt:
            claimed = attempt.claim(["a", "b", "c"])
            assert list(claimed.granted) == ["c"]
            attempt.complete(claimed)


def test_rows_that_were_written_and_staged_before_stay_and_are_served_once_rows_are_kept_again(
    server: RedisServer, tmp_path: Path
) -> None:
    with gateway_at(server, "before", tmp_path, "streams") as gateway, Gateway(gateway.url) as client:
        with client.attempt() as attempt:
            assert attempt.produce("t", ROWS, id_col="key").rows == 2
        batch = Batch(client, "t")
        batch.stage(ROWS)
    with (
        gateway_at(server, "before", tmp_path, "none") as gateway,
        Gateway(gateway.url, timeout_ms=10_000) as client,
    ):
        batch = batch.through(client)
        is_refused(batch.commit)
        is_refused(lambda: client.fetch("t"))
    with gateway_at(server, "before", tmp_path, "streams") as gateway, Gateway(gateway.url) as client:
        batch.through(client).commit()
        rows_read = client.read("t")
        assert rows_read is not None
        assert rows_read.num_rows == 4
