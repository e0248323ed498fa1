"""Tokens of an issuer over HTTP and gRPC of a real gateway: a token opens its tenant's namespaces, by its roles."""

import io
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from oncegate.app import announce, running
from oncegate.clock import SystemClock
from oncegate.core.errors import SettingsError
from oncegate.runtime.logging import open_log
from oncegate.transports.access import keys
from oncegate.transports.access.rights import CALLS, Role
from oncegate.transports.grpc import gateway_pb2 as pb
from oncegate.transports.grpc.methods import paths
from oncegate_spark import AsyncGateway, Credentials, errors
from tests.support.http_app import JSON, Reply, Served, request, settings
from tests.support.issuer import AUDIENCE, URL, Issuer, publishing
from tests.support.tenants import FIRST, THERE

NOWHERE = ("theirs", "no-such-one")
CLAIM, _CLAIM = "/v1/namespaces/{}/ids:claim", "/oncegate.v1.ClaimService/Claim"


def now_s() -> int:
    return SystemClock().wall_ms() // 1_000


class Doors:
    """A gateway that accepts tokens and one key, with the namespaces of two tenants."""

    def __init__(self, http: Served, channel: Any, issuer: Issuer, key: str) -> None:
        self.http, self.channel, self.issuer, self.key = http, channel, issuer, key

    async def claim(self, credential: str | None, namespace: str = "here") -> Reply:
        shown = {} if credential is None else {"Authorization": f"Bearer {credential}"}
        body = b'{"token": "%b", "call": 0, "ids": ["a"]}' % (b"0" * 32)
        return await self.http.send(request("POST", CLAIM.format(namespace), body, Content_Type=JSON, **shown))

    async def call(self, path: str, message: Any, credential: str) -> grpc.StatusCode:
        method = self.channel.unary_unary(path, lambda sent: sent.SerializeToString())
        try:
            await method(message, metadata=(("authorization", f"Bearer {credential}"),), timeout=20)
        except grpc.aio.AioRpcError as error:
            code: grpc.StatusCode = error.code()
            return code
        return grpc.StatusCode.OK


@pytest.fixture
async def doors(tmp_path: Path) -> AsyncIterator[Doors]:
    issuer = Issuer(now_s())
    made, key = keys.made("k", [Role.WRITE], FIRST, 0)
    keys.write(tmp_path / "keys.json", [made])
    (tmp_path / "set.json").write_bytes(issuer.document)
    flags = {"jwt_issuer": URL, "jwt_audience": AUDIENCE, "jwt_keys": str(tmp_path / "set.json"), "grpc_port": 0}
    log = io.StringIO()
    own = settings(keys=tmp_path / "keys.json", **flags)
    async with running(own, open_log("text", log)) as program:
        announce(program, own.process, open_log("text", log))
        assert "credentials: keys, or tokens: each call needs one whose role allows it; tokens are of" in log.getvalue()
        for name in THERE:
            await program.gateway.create(name)
        assert program.grpc is not None
        async with grpc.aio.insecure_channel(f"127.0.0.1:{program.grpc.port}") as channel:
            yield Doors(Served(program, log), channel, issuer, key)


def token(doors: Doors, *roles: str, namespaces: tuple[str, ...] = FIRST) -> str:
    return doors.issuer.token(oncegate_roles=[*roles], oncegate_namespaces=[*namespaces])


async def test_over_http_a_token_is_accepted_only_where_its_claims_allow_it(doors: Doors) -> None:
    assert (await doors.claim(token(doors, "write"))).status == 200
    assert (await doors.claim(doors.key)).status == 200
    (await doors.claim(None)).problem(401, "UNAUTHENTICATED")
    (await doors.claim(token(doors, "ack", "read", "admin", "metrics"))).problem(403, "FORBIDDEN")
    told = [await doors.claim(token(doors, "write"), name) for name in NOWHERE]
    first, second = (reply.problem(403, "FORBIDDEN")["detail"] for reply in told)
    assert first.replace(NOWHERE[0], "") == second.replace(NOWHERE[1], "")
    over = doors.issuer.token(exp=now_s() - 60)
    assert "has expired" in (await doors.claim(over)).problem(401, "UNAUTHENTICATED")["detail"]
    assert over not in doors.http.log.getvalue()


async def test_over_grpc_each_method_asks_the_token_for_the_role_that_its_row_names(doors: Doors) -> None:
    for path, method in paths():
        for role in Role:
            message = method.message(namespace="here")
            code = await doors.call(path, message, token(doors, role.value))
            denied = role not in CALLS[method.call].roles
            assert (code == grpc.StatusCode.PERMISSION_DENIED) == denied, (path, role)
            assert code != grpc.StatusCode.UNAUTHENTICATED
        theirs = method.message(namespace="theirs")
        every = token(doors, *(role.value for role in Role))
        assert await doors.call(path, theirs, every) == grpc.StatusCode.PERMISSION_DENIED
    stranger = Issuer(now_s()).token()
    refused = await doors.call(_CLAIM, pb.ClaimRequest(namespace="here"), stranger)
    assert refused == grpc.StatusCode.UNAUTHENTICATED


async def test_a_client_that_comes_with_a_new_key_of_its_issuer_waits_for_it(tmp_path: Path) -> None:
    """The keys are at an address; the client repeats requests refused as KEYS_UNREAD."""
    issuer = Issuer(now_s())
    with publishing(issuer) as published:
        flags = {"jwt_issuer": URL, "jwt_audience": AUDIENCE, "jwt_keys": published.url}
        async with running(settings(**flags), open_log("text", io.StringIO())) as program:
            url = f"http://127.0.0.1:{program.port}"
            mine = Credentials(api_key=issuer.token(oncegate_namespaces=["default"]))
            async with AsyncGateway(url, credentials=mine) as gateway, gateway.attempt() as attempt:
                await attempt.complete(await attempt.claim(["a"]))
                with pytest.raises(errors.Refused, match="lacks a role"):
                    await gateway.topics()


async def test_an_issuer_that_is_found_by_its_name_opens_both_doors_and_one_that_is_down_is_waited_for() -> None:
    issuer = Issuer(now_s())
    with publishing(issuer) as published:
        published.status = 503
        flags = {"jwt_issuer": published.name, "jwt_audience": AUDIENCE, "grpc_port": 0}
        log = io.StringIO()
        async with running(settings(**flags), open_log("text", log)) as program:
            assert program.grpc is not None
            async with grpc.aio.insecure_channel(f"127.0.0.1:{program.grpc.port}") as channel:
                doors = Doors(Served(program, log), channel, issuer, "")
                mine = issuer.token(iss=published.name, oncegate_namespaces=["default"])
                message = pb.ClaimRequest(namespace="default", token=b"1" * 16, packed=b"a" * 16)
                (await doors.claim(mine, "default")).problem(503, "KEYS_UNREAD")
                assert await doors.call(_CLAIM, message, mine) == grpc.StatusCode.UNAVAILABLE
        published.status = 200
        async with running(settings(**flags), open_log("text", log)) as program:
            assert program.grpc is not None
            async with grpc.aio.insecure_channel(f"127.0.0.1:{program.grpc.port}") as channel:
                doors = Doors(Served(program, log), channel, issuer, "")
                while (reply := await doors.claim(mine, "default")).status == 503:
                    pass  # its keys are being read
                assert reply.status == 200
                assert await doors.call(_CLAIM, message, mine) == grpc.StatusCode.OK


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ({"jwt_issuer": URL}, "jwt_audience: without it no token can be checked"),
        ({"jwt_issuer": "http://issuer.example", "jwt_audience": "a"}, "jwt_issuer, whose keys .*use https://"),
        ({"jwt_audience": "a", "jwt_keys": "set.json"}, "jwt_issuer: without it"),
        ({"jwt_issuer": URL, "jwt_audience": "a", "jwt_keys": "missing.json"}, "jwt_keys: .*No such file"),
        ({"jwt_issuer": URL, "jwt_audience": "a", "jwt_keys": "http://issuer.example/"}, "jwt_keys: .*use https://"),
        ({"jwt_issuer": URL, "jwt_audience": "a", "jwt_keys": "set.json", "jwt_algorithms": "HS256"}, "HS256 is not"),
        ({"jwt_issuer": URL, "jwt_audience": "a", "jwt_keys": "set.json", "jwt_algorithms": "ES256, none"}, "none is"),
        ({"jwt_issuer": URL, "jwt_audience": "a", "jwt_keys": "set.json", "jwt_algorithms": " "}, "none is not taken"),
        ({"jwt_leeway_ms": 300_001}, "jwt_leeway_ms: .*300000"),
    ],
)
async def test_settings_by_which_no_token_could_be_checked_are_one_error_at_the_start(
    flags: dict[str, Any], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "set.json").write_bytes(Issuer(0).document)
    with pytest.raises(SettingsError, match=told) as refused:
        async with running(settings(**flags), open_log("text", io.StringIO())):
            pass
    assert "\n" not in str(refused.value)
