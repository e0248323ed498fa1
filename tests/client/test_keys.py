"""Clients that show a key: the one of their environment, to a real gateway that asks for one."""

import asyncio
import io
from pathlib import Path

import pytest

from oncegate.app import running
from oncegate.runtime.logging import open_log
from oncegate.transports.access import keys
from oncegate.transports.access.rights import Role
from oncegate_spark import errors
from oncegate_spark.aio.gateway import AsyncGateway
from oncegate_spark.sync.gateway import Gateway
from tests.support.http_app import settings


async def test_both_clients_send_the_key_of_the_environment_and_none_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, text = keys.made("loader", [Role.WRITE], ["default"], 0)
    keys.write(tmp_path / "keys.json", [key])
    async with running(settings(keys=tmp_path / "keys.json"), open_log("text", io.StringIO())) as program:
        url = f"http://127.0.0.1:{program.port}"
        monkeypatch.delenv("ONCEGATE_API_KEY", raising=False)
        with pytest.raises(errors.OncegateError, match="asks for a key"):
            await asyncio.to_thread(claimed, url)
        monkeypatch.setenv("ONCEGATE_API_KEY", text)
        assert await asyncio.to_thread(claimed, url) == 1
        async with AsyncGateway(url) as gateway, gateway.attempt() as attempt:
            other = await attempt.claim(["b"])
            await attempt.complete(other)
            assert len(other.granted) == 1


def claimed(url: str) -> int:
    with Gateway(url) as gateway, gateway.attempt() as attempt:
        found = attempt.claim(["a"])
        attempt.complete(found)
        return len(found.granted)
