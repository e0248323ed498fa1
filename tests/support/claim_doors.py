"""Claims the same ids by each transport and encoding, and returns the answers in one form."""

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from oncegate.core.verdicts import BY_BYTE
from oncegate.transports.grpc import gateway_pb2 as pb
from tests.support.doors import NS
from tests.support.grpc_app import PATHS, Both
from tests.support.http_app import ARROW, JSON, PACKED, Reply, request, stream
from tests.support.packed import read_claim_packed

# Text, or the 16 raw bytes of an id.
Id = str | bytes


@dataclass(frozen=True)
class ClaimAnswer:
    """The answer to a claim.

    `verdicts` are words such as `GRANTED` or `GRANTED+TAKEOVER`; `claim` is true if the answer has a claim id; `shadow`
    are the shadow verdicts.
    """

    verdicts: tuple[str, ...]
    claim: bool
    shadow: tuple[str, ...] = ()


def words(raw: bytes) -> tuple[str, ...]:
    rows = [BY_BYTE[byte] for byte in raw]
    return tuple(row.verdict.name + "".join(f"+{flag.name}" for flag in row.flags) for row in rows)


def _raw(ids: Sequence[Id]) -> bytes:
    return b"".join(one if isinstance(one, bytes) else one.encode() for one in ids)


async def _http(doors: Both, media: str, ids: Sequence[Id], token: bytes, call: int, query: str = "") -> Reply:
    headers = {} if media == JSON else {"Oncegate_Token": token.hex(), "Oncegate_Call": str(call)}
    if media == JSON:
        body = json.dumps({"token": token.hex(), "call": call, "ids": ids}).encode()
    else:
        body = _raw(ids) if media == PACKED else stream(pa.record_batch({"id": ids}))
    return await doors.http.send(
        request("POST", f"{NS}/ids:claim{query}", body, Content_Type=media, Accept=media, **headers)
    )


async def _json(doors: Both, ids: Sequence[Id], token: bytes, call: int) -> ClaimAnswer:
    answer = (await _http(doors, JSON, ids, token, call)).json
    flags = ("takeover", "own", "unchecked")
    said = [one["verdict"] + "".join(f"+{f.upper()}" for f in flags if one.get(f)) for one in answer["verdicts"]]
    shadow = tuple(one["shadow_verdict"] for one in answer["verdicts"] if "shadow_verdict" in one)
    return ClaimAnswer(tuple(said), answer["claim"] is not None, shadow)


async def _packed(doors: Both, ids: Sequence[Id], token: bytes, call: int) -> ClaimAnswer:
    answer = read_claim_packed((await _http(doors, PACKED, ids, token, call)).body)
    return ClaimAnswer(words(answer.verdicts.tobytes()), answer.claim is not None)


async def _packed_with_shadow(doors: Both, ids: Sequence[Id], token: bytes, call: int) -> ClaimAnswer:
    body, count = (await _http(doors, PACKED, ids, token, call, "?shadow=true")).body, len(ids)
    answer = read_claim_packed(body[: 24 + count] if len(body) == 24 + 2 * count else body)
    shadow = body[24 + count :] if len(body) == 24 + 2 * count else b""
    plain = tuple(word.partition("+")[0] for word in words(shadow))
    return ClaimAnswer(words(answer.verdicts.tobytes()), answer.claim is not None, plain)


async def _arrow(doors: Both, ids: Sequence[Id], token: bytes, call: int) -> ClaimAnswer:
    table = pa.ipc.open_stream((await _http(doors, ARROW, ids, token, call)).body).read_all()
    flags = ("takeover", "own", "unchecked")
    said = [row["verdict"] + "".join(f"+{f.upper()}" for f in flags if row[f]) for row in table.to_pylist()]
    shadow = table.column("shadow_verdict").to_pylist() if "shadow_verdict" in table.column_names else []
    return ClaimAnswer(tuple(said), b"claim" in (table.schema.metadata or {}), tuple(shadow))


def _message(ids: Sequence[Id], token: bytes, call: int) -> Any:
    return pb.ClaimRequest(namespace="default", token=token, call=call, packed=_raw(ids))


def _of_message(answer: Any) -> ClaimAnswer:
    shadow = tuple(word.partition("+")[0] for word in words(answer.shadow_verdicts))
    return ClaimAnswer(words(answer.verdicts), bool(answer.claim), shadow)


async def _unary(doors: Both, ids: Sequence[Id], token: bytes, call: int) -> ClaimAnswer:
    return _of_message(await doors.call("Claim", _message(ids, token, call)))


async def _stream(doors: Both, ids: Sequence[Id], token: bytes, call: int) -> ClaimAnswer:
    method = doors.channel.stream_stream(
        PATHS["StreamClaims"], lambda sent: sent.SerializeToString(), pb.StreamClaimsResponse.FromString
    )
    opened = method(timeout=20)
    await opened.write(pb.StreamClaimsRequest(claim=_message(ids, token, call)))
    answer = await opened.read()
    await opened.done_writing()
    return _of_message(answer.claim)


# Ids of 16 characters, which every encoding reads as the same bytes.
DOORS: dict[str, Callable[[Both, Sequence[Id], bytes, int], Awaitable[ClaimAnswer]]] = {
    "json": _json,
    "packed": _packed,
    "packed with shadow": _packed_with_shadow,
    "arrow": _arrow,
    "grpc": _unary,
    "stream": _stream,
}


async def put(doors: Both, settings: dict[str, Any], status: int = 200) -> Any:
    """Changes the settings of the default namespace."""
    reply = await doors.http.send(request("PUT", NS, json.dumps(settings).encode(), Content_Type=JSON))
    assert reply.status == status, reply.body
    return reply.json


async def explained(doors: Both, one: str) -> Any:
    return (await doors.http.send(request("GET", f"{NS}/ids:explain?id={one}"))).json
