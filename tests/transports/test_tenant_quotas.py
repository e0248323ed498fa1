"""Quotas of tenants over HTTP and gRPC of a real gateway: over all namespaces and credentials of one tenant only."""

import hashlib
import io
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pyarrow as pa
import pytest

from oncegate.transports.access import keys
from oncegate.transports.access.rights import Role
from oncegate.transports.decode.ids import IMPORT_SCHEMA
from oncegate.transports.grpc import gateway_pb2 as pb
from tests.support.grpc_app import Both, refusal_of
from tests.support.grpc_app import both as opened
from tests.support.http_app import ARROW, JSON, PACKED, request

# Two namespaces of one tenant, each with a key of its own, and one of another tenant.
NAMESPACES = {"acme-1": "acme", "acme-2": "acme", "other": "other"}
MANY = b"".join(n.to_bytes(16, "big") for n in range(1_000))


@dataclass(frozen=True)
class Told:
    """The result of a claim: its id, or the code and the retry delay of its refusal."""

    claim: bytes | None = None
    code: str = "OK"
    retry_after_ms: int = 0


@dataclass(frozen=True)
class Gateway:
    """A gateway of tenants, with a key for each of their namespaces."""

    doors: Both
    keys: dict[str, str]

    async def over_http(self, namespace: str, packed: bytes, token: int) -> Told:
        head = {"Authorization": f"Bearer {self.keys[namespace]}", "Content_Type": PACKED, "Oncegate_Call": "0"}
        head |= {"Oncegate_Token": token.to_bytes(16, "big").hex(), "Accept": JSON}
        reply = await self.doors.http.send(request("POST", f"/v1/namespaces/{namespace}/ids:claim", packed, **head))
        if reply.status == 200:
            return Told(reply.json["claim"].encode())
        assert int(reply.headers["retry-after"]) >= 1
        return Told(None, reply.problem(429, "QUOTA")["code"], reply.json["retry_after_ms"])

    async def over_grpc(self, namespace: str, packed: bytes, token: int) -> Told:
        message = pb.ClaimRequest(namespace=namespace, token=token.to_bytes(16, "big"), packed=packed)
        try:
            answer = await self.doors.call("Claim", message, metadata=self.metadata(namespace))
        except grpc.aio.AioRpcError as error:
            told = refusal_of(error)
            assert told.code == grpc.StatusCode.RESOURCE_EXHAUSTED
            return Told(None, told.members[0], told.members[3] or 0)
        return Told(answer.claim)

    def metadata(self, namespace: str) -> tuple[tuple[str, str], ...]:
        return (("authorization", f"Bearer {self.keys[namespace]}"),)

    async def refusals(self, namespace: str) -> dict[str, int]:
        page = (await self.doors.http.send(request("GET", "/metrics", Authorization=f"Bearer {self.keys['*']}"))).body
        begin = f'oncegate_quota_refusals_total{{namespace="{namespace}",quota="'
        lines = [line for line in page.decode().splitlines() if line.startswith(begin)]
        counted = {line.removeprefix(begin).partition('"')[0]: int(float(line.split()[-1])) for line in lines}
        return {quota: count for quota, count in counted.items() if count}


DOORS: list[Callable[..., Any]] = [Gateway.over_http, Gateway.over_grpc]


@asynccontextmanager
async def gateway(folder: Path, **limits: int) -> AsyncIterator[Gateway]:
    kept, texts = [], {}
    for namespace, tenant in NAMESPACES.items():
        key, texts[namespace] = keys.made(f"key of {namespace}", [Role.WRITE, Role.ADMIN], [namespace], 0, tenant)
        kept.append(key)
    admin, texts["admin"] = keys.made("admin", [Role.ADMIN], ["new-1", "new-2", "new-3"], 0, "newcomer")
    scraper, texts["*"] = keys.made("scraper", [Role.METRICS], ["*"], 0)
    keys.write(folder / "keys.json", [*kept, admin, scraper])
    async with opened(keys=folder / "keys.json", **limits) as doors:
        for namespace in NAMESPACES:
            await doors.http.program.gateway.create(namespace)
        yield Gateway(doors, texts)


@pytest.mark.parametrize("ask", DOORS)
@pytest.mark.parametrize(
    ("limit", "quota"), [("tenant_ids_per_second", "tenant_ids"), ("tenant_bytes_per_second", "tenant_bytes")]
)
async def test_a_tenants_requests_to_one_namespace_consume_only_that_tenants_quota(
    ask: Any, limit: str, quota: str, tmp_path: Path
) -> None:
    async with gateway(tmp_path, **{limit: 1}) as served:
        assert (await ask(served, "acme-1", MANY, 1)).code == "OK"
        position = served.doors.http.program.gateway.namespace("acme-2").mark.position
        refused = await ask(served, "acme-2", MANY, 2)
        assert (refused.code, refused.retry_after_ms > 900_000) == ("QUOTA", True)
        assert served.doors.http.program.gateway.namespace("acme-2").mark.position == position
        assert (await ask(served, "other", MANY, 3)).code == "OK"
        assert await served.refusals("acme-2") == {quota: 1}
        assert await served.refusals("acme-1") == {}


TEXTS = [f"id {n}" for n in range(1_000)]
ATTEMPT = {"token": "0" * 32, "call": 0}
EPOCH = ATTEMPT | {"epoch": 1}
RECORDS = [{"id": text} for text in TEXTS]


def _arrow(**columns: Any) -> bytes:
    table, stream = pa.table(columns), io.BytesIO()
    with pa.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table)
    return stream.getvalue()


_HASHES = [hashlib.sha256(text.encode()).digest()[:16] for text in TEXTS]
_COLUMNS = _HASHES, [None] * 1_000, [0] * 1_000
KNOWN = _arrow(**{field.name: pa.array(its, field.type) for field, its in zip(IMPORT_SCHEMA, _COLUMNS, strict=True)})

# By call: a thousand ids, sequences or rows, in each of its encodings.
BROUGHT: dict[str, tuple[str, str, Any]] = {
    "claim-JSON": ("/ids:claim", JSON, ATTEMPT | {"ids": TEXTS}),
    "claim-packed": ("/ids:claim", PACKED, MANY),
    "claim-Arrow": ("/ids:claim", ARROW, _arrow(id=TEXTS)),
    "take-JSON": ("/ids:take", JSON, {"owner": "me", "ids": TEXTS}),
    "take-packed": ("/ids:take", PACKED, MANY),
    "look_up-JSON": ("/ids:lookup", JSON, {"ids": TEXTS}),
    "look_up-packed": ("/ids:lookup", PACKED, MANY),
    "sequences-JSON": ("/producers/p:claim", JSON, EPOCH | {"sequences": list(range(1_000))}),
    "sequences-packed": ("/producers/p:claim", PACKED, b"".join(n.to_bytes(8, "little") for n in range(1_000))),
    "produce-JSON": ("/topics/t/records:produce", JSON, ATTEMPT | {"records": RECORDS, "id_col": ["id"]}),
    "produce-Arrow": ("/topics/t/records:produce?id_col=id", ARROW, _arrow(id=TEXTS)),
    "forget": ("/ids:forget", JSON, {"ids": TEXTS, "why": "a test"}),
    "import": ("/ids:import?why=a+test", ARROW, KNOWN),
}
RAW = {"Oncegate_Token": "0" * 32, "Oncegate_Call": "0", "Accept": JSON}
HEADS = {"/ids:take": {"Oncegate_Owner": "me"}, "/ids:lookup": {}, "/producers/p:claim": RAW | {"Oncegate_Epoch": "1"}}


@pytest.mark.parametrize("brought", BROUGHT)
async def test_each_call_that_brings_ids_is_its_tenants_in_each_encoding(brought: str, tmp_path: Path) -> None:
    path, media, body = BROUGHT[brought]
    head = {} if media == JSON or "import" in path else HEADS.get(path, RAW)
    async with gateway(tmp_path, tenant_ids_per_second=1) as served:
        head = head | {"Authorization": f"Bearer {served.keys['acme-1']}", "Content_Type": media}
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        reply = await served.doors.http.send(request("POST", f"/v1/namespaces/acme-1{path}", data, **head))
        assert reply.status == 200 or reply.json["code"] == "UNKNOWN_PRODUCER", reply.body
        assert (await served.over_http("acme-2", MANY, 2)).code == "QUOTA"
        assert (await served.over_http("other", MANY, 3)).code == "OK"


async def test_both_doors_count_for_one_tenant(tmp_path: Path) -> None:
    async with gateway(tmp_path, tenant_ids_per_second=1) as served:
        assert (await served.over_http("acme-1", MANY, 1)).code == "OK"
        assert (await served.over_grpc("acme-2", MANY, 2)).code == "QUOTA"
        assert (await served.over_grpc("other", MANY, 3)).code == "OK"
        assert (await served.over_http("other", MANY, 4)).code == "QUOTA"


@pytest.mark.parametrize("ask", DOORS)
async def test_a_tenants_open_claims_are_counted_over_the_namespaces_of_its_credential(
    ask: Any, tmp_path: Path
) -> None:
    async with gateway(tmp_path, tenant_open_claims=2) as served:
        first = await ask(served, "acme-1", b"a" * 16, 1)
        assert (await ask(served, "acme-1", b"b" * 16, 2)).code == "OK"
        assert (await ask(served, "acme-1", b"c" * 16, 3)).code == "QUOTA"
        again = await ask(served, "acme-1", b"a" * 16, 1)
        assert again == first, "a repeat of what was granted opens nothing"
        assert (await ask(served, "other", b"a" * 16, 4)).code == "OK"
        settled = pb.CompleteRequest(namespace="acme-1", claim=_bytes(first.claim))
        await served.doors.call("Complete", settled, metadata=served.metadata("acme-1"))
        assert (await ask(served, "acme-1", b"c" * 16, 3)).code == "OK"
        assert await served.refusals("acme-1") == {"tenant_open_claims": 1}


def _bytes(claim: bytes | None) -> bytes:
    from oncegate.transports.decode.identifiers import claim_bytes

    assert claim is not None
    return claim if len(claim) == 16 else claim_bytes(claim.decode())


async def test_a_tenant_makes_no_more_namespaces_than_it_may_have(tmp_path: Path) -> None:
    async with gateway(tmp_path, tenant_namespaces=2) as served:
        replies = []
        for name in ("new-1", "new-2", "new-1", "new-3"):
            head = {"Authorization": f"Bearer {served.keys['admin']}"}
            replies.append(await served.doors.http.send(request("PUT", f"/v1/namespaces/{name}", **head)))
        assert [reply.status for reply in replies] == [201, 201, 200, 429]
        told = replies[-1].problem(429, "TOO_MANY_NAMESPACES")
        assert "tenant_namespaces" in told["detail"]
        assert "new-3" not in served.doors.http.program.gateway.namespaces()


async def test_only_the_credential_decides_whose_a_request_is(tmp_path: Path) -> None:
    """Headers and metadata that name a tenant are refused or ignored."""
    async with gateway(tmp_path, tenant_ids_per_second=1) as served:
        assert (await served.over_http("acme-1", MANY, 1)).code == "OK"
        body = json.dumps({"token": "ab" * 16, "call": 0, "ids": ["a"]}).encode()
        head = {"Authorization": f"Bearer {served.keys['acme-2']}", "Content_Type": JSON}
        path = "/v1/namespaces/acme-2/ids:claim"
        for named in ({"Oncegate_Tenant": "other"}, {"X_Tenant": "other"}):
            reply = await served.doors.http.send(request("POST", path, body, **head, **named))
            assert reply.status in (400, 429), reply.body
        metadata = (*served.metadata("acme-2"), ("oncegate-tenant", "other"), ("x-tenant", "other"))
        message = pb.ClaimRequest(namespace="acme-2", token=b"2" * 16, packed=MANY)
        assert (await served.doors.refused("Claim", message, metadata=metadata)).members[0] == "QUOTA"
