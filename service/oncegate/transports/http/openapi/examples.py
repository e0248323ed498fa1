"""Examples for OpenAPI: values that stand for themselves, and a schema's inlined form for query parameters."""

import base64
from dataclasses import asdict
from typing import Any

import msgspec
import pyarrow as pa

from oncegate.engine.limits import Limits
from oncegate.transports.promises import CREDENTIALS, promised

TOKEN = "6f1c2a9e4b7d4e5f8a0b1c2d3e4f5a6b"  # noqa: S105 - an attempt's name, no secret
CLAIM = "4d1kz8q0v3m7x2c9b5n6t1r0hj"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
LEDGER = "9c0f3e21b7d84a55a1c2d3e4f5061728"
MARK = f"{LEDGER}:1042:5e6f708192a3b4c5"
CONTENT_DIGEST = "sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:"
FINGERPRINT = "00112233445566778899aabbccddeeff"
SHA256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

CLAIM_REQUEST = {"token": TOKEN, "call": 0, "ids": ["a", "b", "a"]}
CLAIM_REPLY = {
    "claim": CLAIM,
    "lease_ms": 30_000,
    "verdicts": [
        {"verdict": "GRANTED"},
        {"verdict": "BUSY", "lease_left_ms": 12_345},
        {"verdict": "SAME", "of_index": 0},
    ],
    "id_set": "",
}


COMPLETE_REQUEST = {"result": base64.b64encode(b"departed 18:05").decode()}


def settled(state: str, lease_ms: int = 0) -> dict[str, Any]:
    """Makes the answer to renew, complete or release of a claim."""
    return {"claim": CLAIM, "state": state, "settled": 2, "taken_over": 0, "lease_ms": lease_ms}


NAME = {"app": "b2c1f0de-0000-4000-8000-1234567890ab", "version": "17", "topic": "departures"}
STAGE = {**NAME, "write_id": "", "owner": "run:0b1e7c52-7c60-4b57-9d0e-1f2a3b4c5d6e", "chunk": 0, "key_col": "carrier"}
FETCH_QUERY = {"offset": 0, "max_rows": 10_000, "columns": "carrier,flight"}
STAGE_REPLY = {"outcome": "STAGED", "rows": 10_000, "fingerprint": FINGERPRINT, "chunk": 0}
COMMIT = {
    "name": NAME,
    "run": "0b1e7c52-7c60-4b57-9d0e-1f2a3b4c5d6e",
    "nonce": TOKEN,
    "winners": [{"token": TOKEN, "chunks": 1, "rows": 10_000, "fingerprint": FINGERPRINT}],
    "digest": SHA256,
    "previous_digest": None,
    "source_offsets": '[{"events":{"0":17,"1":4}}]',
}
COMMIT_REPLY = {
    "outcome": "COMMITTED",
    "rows": 10_000,
    "offsets": [{"partition": 0, "first_offset": 0, "rows": 10_000}],
    "suppressed_rows": 0,
    "takeover_rows": 0,
    "first_of_app": True,
}
OFFSETS_QUERY: dict[str, Any] = {"app": NAME["app"], "topic": NAME["topic"], "write_id": ""}
OFFSETS_REPLY = {**OFFSETS_QUERY, "source_offsets": COMMIT["source_offsets"]}
ABORT = {"name": NAME, "tokens": [TOKEN]}
ABORT_REPLY = {"outcome": "ABORTED", "removed": 1}
TAKE_REQUEST = {"owner": "daily-2026-11-20", "ids": ["a", "b", "a"]}
TAKE_REPLY = {
    "verdicts": [{"verdict": "GRANTED"}, {"verdict": "DUPLICATE"}, {"verdict": "SAME", "of_index": 0}],
    "id_set": "dedup",
}
LOOK_UP_REQUEST = {"ids": ["a", "b", "c"], "id_set": "departures"}
LOOK_UP_REPLY = {
    "verdicts": [{"verdict": "DUPLICATE"}, {"verdict": "FREE"}, {"verdict": "FREE", "takeover": True}],
    "id_set": "departures",
}
PRODUCE_REQUEST = {
    "token": TOKEN,
    "call": 0,
    "records": [{"invoice": "2026-0001", "cents": 1200}, {"invoice": "2026-0002", "cents": 350}],
    "id_col": ["invoice"],
    "id_set": "invoices",
}
# By id: a request that names a producer has no id_col.
_NO_PRODUCER = dict.fromkeys(("producer", "epoch", "sequence_col", "prev_sequence"))
PRODUCE_QUERY: dict[str, Any] = {
    "id_col": "invoice",
    "key_col": "invoice",
    "digest_col": "cents",
    **_NO_PRODUCER,
    "id_set": "invoices",
    "spilled_ms": 1_795_219_200_123,
}
PRODUCE_REPLY = {
    "rows": 1,
    "offsets": [{"partition": 0, "first_offset": 0, "rows": 1}],
    "verdicts": [{"verdict": "GRANTED"}, {"verdict": "DUPLICATE"}],
    "id_set": "invoices",
}
TOPIC_REQUEST = {"partitions": 4, "retention_ms": 604_800_000, "retention_bytes": 0}
NAMESPACE_REQUEST = {
    "horizon_ms": 604_800_000,
    "auto_create_topics": True,
    "record_headers": False,
    "lease_expiry": "hold",
    "id_time": "none",
    "shadow": False,
    "on_ledger_down": "reject",
}
_SCHEMA = pa.schema({"carrier": pa.string(), "flight": pa.int64()})
TOPIC_REPLY = {
    "topic": "departures",
    "partitions": 1,
    "schema": "carrier string, flight int64",
    "schema_ipc": base64.b64encode(_SCHEMA.serialize().to_pybytes()).decode(),
    "retention_ms": 0,
    "retention_bytes": 0,
    "low_offsets": [0],
    "high_offsets": [336_776],
}
WRITER: dict[str, Any] = {
    "job": "b2c1f0de-0000-4000-8000-1234567890ab",
    "run": "7d4e5f8a-0000-4000-8000-6f1c2a9e4b7d",
    "batch": "18",
    "stage": 4,
    "stage_attempt": 0,
    "task": 3,
    "attempt": 1,
}
PAGE_QUERY: dict[str, Any] = {"limit": 100, "after": "arrivals"}
TOPICS_REPLY = {"topics": ["departures"], "next": "departures"}
RECORDS_REPLY = {
    "records": [{"time_hour": "2013-01-01T05:00:00Z", "carrier": "UA", "flight": 1545}],
    "first_offset": 0,
    "next_offset": 1,
    "high_offset": 336_776,
}
_WRITES = {name: {"promise": one.promise, "means": one.meaning} for name, one in promised("log:./data").items()}
NAMESPACE_REPLY = {
    "namespace": "mail",
    "ledger": LEDGER,
    "horizon_ms": 0,
    "auto_create_topics": True,
    "record_headers": False,
    "lease_expiry": "takeover",
    "id_time": "none",
    "shadow": False,
    "on_ledger_down": "reject",
    "failing": {},
    "counters": {"granted": 3, "duplicates": 1},
    "writes": _WRITES,
}
DELETION = {"confirm": "mail"}
DELETED_REPLY = {"namespace": "mail"}
NAMESPACES_REPLY = {"namespaces": ["default", "mail"], "next": "mail"}
EXPLAIN_REPLY = {
    "state": "CLAIMED_LIVE",
    "id_set": "",
    "claim": CLAIM,
    "token": TOKEN,
    "call": 0,
    "lease_left_ms": 12_345,
    "position": 1042,
    "wall_ms": 1_795_255_200_000,
    "fingerprint": "6f1c0c53a2b94f5d8f3c1f0be4f2a7d9",
}
LIMITS_REPLY = asdict(Limits())
CAPABILITIES_REPLY = {
    "writes": _WRITES,
    "ids": ["application/json", "application/vnd.oncegate.packed", "application/vnd.apache.arrow.stream"],
    "rows": ["application/vnd.apache.arrow.stream", "application/json"],
    "ledger": "log:./data",
    "credentials": CREDENTIALS,
}
CAPABILITIES_QUERY = {"namespace": "default"}
VERSION_REPLY = {"version": "1.0.0rc1", "api": "v1", "semantics": "5f1d8c0a2b3e4f60"}
HEALTH_REPLY = {"status": "ready", "namespaces": {"default": "SERVING"}}
READY_QUERY = {"namespace": "default"}
ERROR_REPLY = {
    "code": "NULL_ID",
    "title": "An id is null or empty",
    "status": 422,
    "action": "fix",
    "effect": "none",
}


def schema_of(message: Any) -> dict[str, Any]:
    """Returns the message's own schema, not a reference to it."""
    _, components = msgspec.json.schema_components([message])
    schema: dict[str, Any] = components[message.__name__]
    return schema
