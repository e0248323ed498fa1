"""Clients with the key from their environment, against a real gateway that requires one."""

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
from oncegate_spark.protocol.address import GatewayAddress, with_key
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
        with pytest.raises(errors.OncegateError, match="requires a key"):
            await asyncio.to_thread(claimed, url)
        monkeypatch.setenv("ONCEGATE_API_KEY", text)
        assert await asyncio.to_thread(claimed, url) == 1
        async with AsyncGateway(url) as gateway, gateway.attempt() as attempt:
            other = await attempt.claim(["b"])
            await attempt.complete(other)
            assert len(other.granted) == 1


@pytest.mark.parametrize(
    "url", ["http://gateway:8080", "http://10.0.0.7:8080", "http://127.evil.example", "http://[::2]"]
)
def test_a_key_is_never_sent_in_clear_text_to_another_host(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONCEGATE_API_KEY", "og_secret")
    for client in (Gateway, AsyncGateway):
        with pytest.raises(errors.BadOption, match=r"clear text.*nothing was sent") as refused:
            client(url)
        assert "og_secret" not in str(refused.value)


def test_a_key_that_comes_into_the_environment_later_is_not_sent_either(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ONCEGATE_API_KEY", raising=False)
    address = GatewayAddress.of("http://gateway:8080")
    assert with_key(address, {"A": "b"}) == {"A": "b"}
    monkeypatch.setenv("ONCEGATE_API_KEY", "og_secret")
    with pytest.raises(errors.BadOption):
        with_key(address, {})


@pytest.mark.parametrize("url", ["https://gateway", "http://localhost:1", "http://127.0.0.2:1", "http://[::1]:1"])
def test_a_key_is_sent_over_encryption_and_loopback(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONCEGATE_API_KEY", "og_secret")
    assert with_key(GatewayAddress.of(url), {})["Authorization"] == "Bearer og_secret"


@pytest.mark.parametrize("key", ["og_secret\nX: y", "og secret", "og_s\u00e9cret"])
def test_a_key_that_no_header_carries_is_refused_and_not_shown(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONCEGATE_API_KEY", key)
    with pytest.raises(errors.BadOption, match=r"no key has.*nothing was sent") as refused:
        Gateway("http://127.0.0.1:1")
    assert key not in str(refused.value)


def claimed(url: str) -> int:
    with Gateway(url) as gateway, gateway.attempt() as attempt:
        found = attempt.claim(["a"])
        attempt.complete(found)
        return len(found.granted)
