"""Every route of the OpenAPI document, called by every kind of caller: anonymous, a stranger, two tenants, each
role."""

import asyncio
import io
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from oncegate.app import running
from oncegate.core.errors import SettingsError
from oncegate.doors import bound
from oncegate.runtime.logging import open_log
from oncegate.transports.access.rights import CALLS, Role
from tests.support.http_app import JSON, Reply, Served, request, settings
from tests.support.tenants import STRANGER, THERE, write_keys
from tests.support.tree import ROOT

DOCUMENT = json.loads((ROOT / "service/oncegate/transports/http/openapi/openapi.json").read_text())
ROUTES = [
    (operation["operationId"], method.upper(), path, operation)
    for path, operations in DOCUMENT["paths"].items()
    for method, operation in operations.items()
]
PROBE_PATH = {
    "topic": "t",
    "partition": "0",
    "claim": f"{1:026}",
    "producer": "p",
    "driver": "d",
    "code": "null-id",
}
ADMITTED = "admitted"


def address(path: str, namespace: str) -> str:
    return re.sub(r"\{(\w+)\}", lambda found: {**PROBE_PATH, "namespace": namespace}[found[1]], path)


class Tenants:
    """A gateway that requires keys, with two tenants' namespaces, and a key for each role of each."""

    def __init__(self, http: Served, texts: dict[str, str]) -> None:
        self.http, self.texts = http, texts

    async def ask(self, method: str, path: str, credential: str | None, **more: str) -> Reply:
        shown = {} if credential is None else {"Authorization": f"Bearer {credential}"}
        body = b"{}" if method in ("POST", "PUT") else b""
        return await self.http.send(request(method, path, body, Content_Type=JSON, **shown, **more))

    async def cell(self, method: str, path: str, credential: str | None) -> int | str:
        """Returns 401, 403, or that the request was admitted: later errors do not depend on the caller."""
        reply = await self.ask(method, path, credential)
        if reply.status == 401:
            assert reply.problem(401, "UNAUTHENTICATED")["effect"] == "none"
            assert reply.headers["www-authenticate"] == "Bearer"
            return 401
        if reply.status == 403:
            assert reply.problem(403, "FORBIDDEN")["effect"] == "none"
            return 403
        return ADMITTED


@asynccontextmanager
async def tenants(folder: Path) -> AsyncIterator[Tenants]:
    texts = write_keys(folder / "keys.json")
    log = io.StringIO()
    async with running(settings(keys=folder / "keys.json"), open_log("text", log)) as program:
        for name in THERE:
            await program.gateway.create(name)
        found = Tenants(Served(program, log), texts)
        yield found
        assert not [text for text in texts.values() if text.rpartition("_")[2] in log.getvalue()]


async def test_each_route_answers_each_role_according_to_the_one_table(tmp_path: Path) -> None:
    cells: dict[tuple[str, str], int | str] = {}
    async with tenants(tmp_path) as two:
        asking: dict[str, str | None] = {"nobody": None, "stranger": STRANGER, **two.texts}
        # Deletions come last: the other tenant's namespace must still be there.
        for name, method, path, _ in sorted(ROUTES, key=lambda route: route[1] == "DELETE"):
            for who, credential in asking.items():
                cells[name, who] = await two.cell(method, address(path, "here"), credential)
        assert "theirs" in two.http.program.gateway.namespaces()
    assert len(cells) == len(ROUTES) * (2 + 3 * len(Role))
    wanted = {(name, who): expected(name, path, who) for name, _, path, _ in ROUTES for who in asking}
    assert {cell: (cells[cell], said) for cell, said in wanted.items() if cells[cell] != said} == {}


def expected(name: str, path: str, who: str) -> int | str:
    """Returns the expected value of a cell, by the table of roles and the caller."""
    right = CALLS[name]
    if right.public:
        return ADMITTED
    if who in ("nobody", "stranger"):
        return 401
    tenant, role = who.split()
    if right.roles and Role(role) not in right.roles:
        return 403
    if right.everywhere:
        return ADMITTED if tenant == "all" else 403
    return ADMITTED if tenant != "second" or "{namespace}" not in path else 403


def test_no_route_is_left_out_of_the_table_and_no_row_is_left_over() -> None:
    assert set(CALLS) == {name for name, *_ in ROUTES} | {"getDocument", "getConsole"}


def test_public_routes_and_acking_routes_are_the_intended_ones() -> None:
    """The expectation is written by hand, because a mistake in the table would otherwise agree with itself."""
    assert {name for name, right in CALLS.items() if right.public} == {
        "getDocument", "getConsole", "getError", "liveProbe", "startupProbe", "readyProbe",
    }  # fmt: skip
    assert {name for name, right in CALLS.items() if not right.roles and not right.public} == {
        "listNamespaces", "getLimits", "getCapabilities", "getVersion",
    }  # fmt: skip
    assert {name for name, right in CALLS.items() if right.roles == {Role.ACK}} == {"registerDriver", "ackProducers"}
    reads = {name for name, method, *_ in ROUTES if method == "GET"}
    changes = {name for name, right in CALLS.items() if Role.READ in right.roles} - reads
    assert changes == {"lookUpIds"}, "a POST for its many ids; it grants nothing and writes nothing"


@pytest.mark.parametrize(("name", "path"), [(name, path) for name, method, path, _ in ROUTES if method == "POST"])
def test_the_document_names_the_role_that_each_route_needs(name: str, path: str) -> None:
    operation = next(found for called, _, _, found in ROUTES if called == name)
    assert operation["x-oncegate-roles"] == sorted(role.value for role in CALLS[name].roles)
    assert {"401", "403"} <= operation["responses"].keys()


async def test_routes_are_refused_alike_past_the_framework_and_through_it(tmp_path: Path) -> None:
    async with tenants(tmp_path) as two:
        for _, method, path, _ in ROUTES:
            if "{namespace}" not in path:
                continue
            for through in ({}, {"Expect": "100-continue"}):  # the second is left to the framework
                answer = await two.ask(method, address(path, "here"), two.texts["second write"], **through)
                answer.problem(403, "FORBIDDEN")
                (await two.ask(method, address(path, "here"), None, **through)).problem(401, "UNAUTHENTICATED")


async def test_another_tenants_namespace_and_one_that_is_nowhere_are_refused_in_the_same_words(tmp_path: Path) -> None:
    async with tenants(tmp_path) as two:
        for _, method, path, _ in ROUTES:
            if "{namespace}" not in path:
                continue
            told = []
            for namespace in ("here", "nowhere"):
                reply = await two.ask(method, address(path, namespace), two.texts["second write"])
                if reply.status == 403:
                    problem = reply.problem(403, "FORBIDDEN")
                    told.append(problem["detail"].replace(namespace, "it"))
            assert len(set(told)) == 1, (path, told)
            assert len(told) == 2, path


async def test_a_tenant_sees_the_names_of_its_own_namespaces_alone(tmp_path: Path) -> None:
    async with tenants(tmp_path) as two:
        seen: dict[str, Any] = {}
        for tenant in ("first", "second", "all"):
            seen[tenant] = (await two.ask("GET", "/v1/namespaces", two.texts[f"{tenant} write"])).json["namespaces"]
        assert seen == {"first": ["here"], "second": ["theirs"], "all": ["default", "here", "theirs"]}
        for probe in ("live", "startup", "ready"):
            assert (await two.ask("GET", f"/healthz/{probe}", None)).json["namespaces"] == {}


async def test_the_state_of_a_namespace_is_reported_to_roles_in_it(tmp_path: Path) -> None:
    async with tenants(tmp_path) as two:
        mine = "/healthz/ready?namespace=here"
        told = (await two.ask("GET", mine, two.texts["first read"])).json
        assert (told["namespaces"], "detail" in told) == ({"here": "SERVING"}, False)
        for namespace in ("here", "nowhere"):
            (await two.ask("GET", f"/healthz/ready?namespace={namespace}", None)).problem(401, "UNAUTHENTICATED")
            reply = await two.ask("GET", f"/healthz/ready?namespace={namespace}", two.texts["second read"])
            reply.problem(403, "FORBIDDEN")
        (await two.ask("GET", "/healthz/ready?namespace=nowhere", two.texts["all read"])).problem(404, "NOT_FOUND")


async def test_a_key_is_taken_from_the_header_alone(tmp_path: Path) -> None:
    async with tenants(tmp_path) as two:
        text = two.texts["first read"]
        for shown in (text, f"Basic {text}", f"Bearer{text}"):
            raw = request("GET", "/v1/namespaces/here", Authorization=shown)
            (await two.http.send(raw)).problem(401, "UNAUTHENTICATED")
        (await two.ask("GET", f"/v1/namespaces/here?key={text}", None)).problem(401, "UNAUTHENTICATED")
        assert (
            await two.http.send(request("GET", "/v1/namespaces/here", Authorization=f"bearer {text}"))
        ).status == 200


async def test_two_keys_at_once_are_refused(tmp_path: Path) -> None:
    async with tenants(tmp_path) as two:
        text = two.texts["first read"]
        raw = request("GET", "/v1/namespaces/here", Authorization=f"Bearer {text}\r\nAuthorization: Bearer {text}")
        (await two.http.send(raw)).problem(400, "BAD_REQUEST")


async def test_a_gateway_whose_keys_cannot_be_read_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="keys: "):
        async with running(settings(keys=tmp_path / "none.json"), open_log("text", io.StringIO())):
            await asyncio.Event().wait()


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_every_address_may_be_listened_on_once_callers_show_keys(host: str) -> None:
    with pytest.raises(SettingsError, match="without keys only loopback"):
        bound(host, 0)
    bound(host, 0, guarded=True).close()


@pytest.mark.parametrize("wrong", [{"host": "0.0.0.0"}, {"keys": "none.json"}])
async def test_what_may_not_be_listened_on_or_read_makes_no_ledger(tmp_path: Path, wrong: dict[str, str]) -> None:
    data = tmp_path / "data"
    with pytest.raises(SettingsError):
        async with running(settings(ledger=f"log:{data}", **wrong), open_log("text", io.StringIO())):
            await asyncio.Event().wait()
    assert not data.exists()
