"""Calls one gateway by HTTP or gRPC with the same arguments and returns plain values or a `Refused`.

Tokens, nonces, digests and fingerprints are bytes here. HTTP writes them as hex, and a claim id as 26 characters.
"""

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlencode

import grpc
import numpy as np

from oncegate.core.verdicts import BY_BYTE
from oncegate.transports.decode.identifiers import claim_text
from oncegate.transports.grpc import gateway_pb2 as pb
from oncegate.transports.http.messages.verdicts import verdict_members
from tests.support.grpc_app import Both, refusal_of
from tests.support.http_app import ARROW, JSON, PACKED, request, stream

NS = "/v1/namespaces/default"
_COLUMNS = ("id_col", "key_col", "digest_col")
_ENUMS = {
    ("gaps", "allow"): pb.GAPS_ALLOW,
    ("gaps", "refuse"): pb.GAPS_REFUSE,
    ("on_replay_mismatch", "fail"): pb.REPLAY_MISMATCH_FAIL,
    ("on_replay_mismatch", "first_wins"): pb.REPLAY_MISMATCH_FIRST_WINS,
}
# The gRPC method and request type of each call of a scenario.
_METHODS: dict[str, tuple[str, Any]] = {
    name: (method, getattr(pb, f"{method}Request"))
    for name, method in (
        ("claim", "Claim"),
        ("renew", "Renew"),
        ("complete", "Complete"),
        ("release", "Release"),
        ("produce", "Produce"),
        ("stage", "Stage"),
        ("commit", "Commit"),
        ("register_producer", "RegisterProducer"),
        ("register_driver", "RegisterDriver"),
        ("ack", "Ack"),
    )
}


@dataclass(frozen=True)
class Refused:
    """The refusal of a call: its code, action and effect, and the delay before a retry."""

    code: str
    action: str
    effect: str
    retry_after_ms: int | None


class Door(Protocol):
    """A transport that scenarios call."""

    async def ask(self, call: str, asked: Mapping[str, Any]) -> Any:
        """Makes one call. Returns its answer as a dict, or a Refused."""


class HttpDoor:
    """Makes the calls over HTTP: paths, headers, JSON, and bodies of ids and rows."""

    def __init__(self, doors: Both) -> None:
        self._doors = doors

    async def ask(self, call: str, asked: Mapping[str, Any]) -> Any:
        reply = await self._doors.http.send(_as_request(call, dict(asked)))
        if reply.status < 300:
            return _shorn(reply.json)
        told = reply.json
        return Refused(told["code"], told["action"], told["effect"], told.get("retry_after_ms"))


class GrpcDoor:
    """Makes the calls over gRPC."""

    def __init__(self, doors: Both) -> None:
        self.doors = doors

    async def ask(self, call: str, asked: Mapping[str, Any]) -> Any:
        try:
            return plain(await self.sent(call, message_of(call, asked)))
        except grpc.aio.AioRpcError as error:
            return Refused(*refusal_of(error).members)

    async def sent(self, call: str, message: Any) -> Any:
        """Sends a message and returns its answer. Raises AioRpcError."""
        return await self.doors.call(_METHODS[call][0], message)


def message_of(call: str, asked: Mapping[str, Any]) -> Any:
    told: dict[str, Any] = {"namespace": "default"}
    for name, value in asked.items():
        if name == "rows":
            told["arrow"] = stream(value)
        else:
            told[name] = _ENUMS.get((name, value), value) if isinstance(value, str) else value
    if call == "stage":
        told["sha256"] = told.get("sha256") or hashlib.sha256(told["arrow"]).digest()
    return _METHODS[call][1](**told)


def plain(answer: Any) -> Any:
    """Converts a gRPC answer to the JSON members of HTTP, without empty fields."""
    if isinstance(answer, pb.Interval):
        return [answer.first, answer.last]
    told: dict[str, Any] = {}
    for field in answer.DESCRIPTOR.fields:
        if not field.has_presence or answer.HasField(field.name):
            told[field.name] = _told(field, getattr(answer, field.name))
    if "numbers" in told:
        told["verdicts"] = _verdicts(answer.verdicts, answer.numbers)
        del told["numbers"]
    return told["settled"] if isinstance(told.get("settled"), dict) else _shorn(told)


def _told(field: Any, value: Any) -> Any:
    if field.enum_type is not None:
        prefix = "".join(f"_{letter}" if letter.isupper() else letter.upper() for letter in field.enum_type.name)
        return field.enum_type.values_by_number[value].name.removeprefix(prefix[1:].upper() + "_")
    if field.message_type is not None:
        return plain(value) if not field.is_repeated else list(map(plain, value))
    if field.name == "claims":
        return list(map(claim_text, value))
    if isinstance(value, bytes):
        return {"claim": claim_text, "result": _base64}.get(field.name, bytes.hex)(value) if value else None
    return value


def _verdicts(verdicts: bytes, numbers: bytes) -> list[Any]:
    found = [dict(verdict_members(BY_BYTE[byte])) for byte in verdicts]
    for at, number in np.frombuffer(numbers, "<u4").reshape(-1, 2).tolist():
        found[at][str(BY_BYTE[verdicts[at]].number)] = number
    return found


def _shorn(value: Any) -> Any:
    """Removes empty members: HTTP omits them in some answers and writes null or an empty list in others."""
    if isinstance(value, dict):
        shorn = {name: _shorn(item) for name, item in value.items()}
        return {name: item for name, item in shorn.items() if not _says_nothing(name, item)}
    return list(map(_shorn, value)) if isinstance(value, list) else value


def _says_nothing(name: str, item: Any) -> bool:
    return item is None or item is False or item in ("", []) or (name == "open_ids" and item == 0)


def _as_request(call: str, asked: dict[str, Any]) -> bytes:
    if call in ("claim", "produce", "stage"):
        return {"claim": _claim, "produce": _produce, "stage": _stage}[call](asked)
    if call in ("renew", "release", "complete"):
        path = f"{NS}/claims/{claim_text(asked.pop('claim'))}:{call}"
        return _json(path, {"result": _base64(asked["result"])}) if asked else request("POST", path)
    if call == "commit":
        return _json(f"{NS}/batches:commit", asked)
    verb, kind = {
        "register_producer": ("register", "producer"),
        "register_driver": ("register", "driver"),
        "ack": ("ack", "driver"),
    }[call]
    return _json(f"{NS}/{kind}s/{asked.pop(kind)}:{verb}", asked)


def _json(path: str, message: Mapping[str, Any]) -> bytes:
    return request("POST", path, json.dumps(message, default=bytes.hex).encode(), Content_Type=JSON)


def _headers(asked: dict[str, Any], *names: str) -> dict[str, str]:
    """Moves these arguments of a call into headers."""
    given = {name: asked.pop(name) for name in names if name in asked}
    return {
        f"Oncegate_{name.title()}": value.hex() if isinstance(value, bytes) else str(value)
        for name, value in given.items()
    }


def _claim(asked: dict[str, Any]) -> bytes:
    headers = _headers(asked, "token", "call", "driver", "batch", "id_set", "lease_ms")
    media, raw = (PACKED, asked["packed"]) if "packed" in asked else (ARROW, stream(asked["rows"]))
    return request("POST", f"{NS}/ids:claim", raw, Content_Type=media, Accept=JSON, **headers)


def _produce(asked: dict[str, Any]) -> bytes:
    headers, topic = _headers(asked, "token", "call", "driver", "batch"), asked.pop("topic")
    raw = stream(asked.pop("rows"))
    path = f"{NS}/topics/{topic}/records:produce{_query(asked)}"
    return request("POST", path, raw, Content_Type=ARROW, Accept=JSON, **headers)


def _stage(asked: dict[str, Any]) -> bytes:
    raw, headers = stream(asked.pop("rows")), _headers(asked, "token")
    sha256 = asked.pop("sha256", hashlib.sha256(raw).digest())
    path = f"{NS}/batches:stage{_query(asked.pop('name') | asked)}"
    return request("POST", path, raw, Content_Type=ARROW, Content_Digest=f"sha-256=:{_base64(sha256)}:", **headers)


def _query(asked: Mapping[str, Any]) -> str:
    told = {name: ",".join(value) if name in _COLUMNS else value for name, value in asked.items()}
    return f"?{urlencode(told)}" if told else ""


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()
