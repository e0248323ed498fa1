"""Good and bad requests as bytes, with the status and code that each bad one must get."""

import json
from typing import Any

import pyarrow as pa

from tests.support.http_app import (
    ARROW,
    CLAIM,
    JSON,
    PACKED,
    request,
    stream,
)

TOKEN = "6f1c2a9e4b7d4e5f8a0b1c2d3e4f5a6b"
RAW = {"Oncegate_Token": TOKEN, "Oncegate_Call": "0"}
PRODUCE = "/v1/namespaces/default/topics/t/records:produce"
STAGE = "/v1/namespaces/default/batches:stage?app=q&version=1&topic=t&owner=run:1&chunk=0"
LIVE = request("GET", "/healthz/live")
ROWS = stream(pa.record_batch({"id": ["a", "b"]}))


def claim_json(body: bytes, **headers: str) -> bytes:
    return request("POST", CLAIM, body, Content_Type=JSON, **headers)


def message(**change: Any) -> bytes:
    return claim_json(json.dumps({"token": TOKEN, "call": 0, "ids": ["a"]} | change).encode())


def packed(body: bytes, **headers: str) -> bytes:
    return request("POST", CLAIM, body, Content_Type=PACKED, **{**RAW, **headers})


def arrow(body: bytes, path: str = CLAIM, **headers: str) -> bytes:
    return request("POST", path, body, Content_Type=ARROW, **{**RAW, **headers})


STAGED = {"Oncegate_Call": ""}
WRONG_DIGEST = STAGED | {"Content_Digest": "sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:"}


CASES: dict[str, tuple[bytes, int, str]] = {
    "unknown namespace": (request("GET", "/v1/namespaces/nowhere"), 404, "NOT_FOUND"),
    "malformed JSON": (claim_json(b'{"token":'), 400, "BAD_REQUEST"),
    "empty JSON": (claim_json(b""), 400, "BAD_REQUEST"),
    "JSON that is not UTF-8": (claim_json(b'{"ids":["\xff"]}'), 400, "BAD_REQUEST"),
    "a lone surrogate": (claim_json(b'{"token":"%s","call":0,"ids":["\\ud800"]}' % TOKEN.encode()), 400, "BAD_REQUEST"),
    "very deep JSON": (claim_json(b"[" * 90_000), 400, "BAD_REQUEST"),
    "another shape": (claim_json(b"[1,2,3]"), 400, "BAD_REQUEST"),
    "a member that does not exist": (message(lease=5), 400, "BAD_REQUEST"),
    "a number as id": (message(ids=[1]), 400, "BAD_REQUEST"),
    "a negative call": (message(call=-1), 400, "BAD_REQUEST"),
    "a call beyond 32 bits": (message(call=2**32), 400, "BAD_REQUEST"),
    "a short token": (message(token="6f1c"), 400, "BAD_REQUEST"),
    "a lease that is too long": (message(lease_ms=10**9), 400, "BAD_REQUEST"),
    "a null id": (message(ids=["a", None]), 422, "NULL_ID"),
    "an empty id": (message(ids=["", "a"]), 422, "NULL_ID"),
    "an id over 1,024 bytes": (message(ids=["x" * 1_025]), 413, "TOO_LARGE"),
    "too many ids": (message(ids=[str(n) for n in range(1_001)]), 413, "TOO_LARGE"),
    "a packed body cut in an id": (packed(bytes(31)), 400, "BAD_REQUEST"),
    "too many packed ids": (packed(bytes(16 * 1_001)), 413, "TOO_LARGE"),
    "no token header": (packed(bytes(16), Oncegate_Token=""), 400, "BAD_REQUEST"),
    "a token header that is none": (packed(bytes(16), Oncegate_Token="x"), 400, "BAD_REQUEST"),
    "no call header": (packed(bytes(16), Oncegate_Call=""), 400, "BAD_REQUEST"),
    "a call header that is no number": (packed(bytes(16), Oncegate_Call="+1"), 400, "BAD_REQUEST"),
    "a lease header that is none": (packed(bytes(16), Oncegate_Lease_Ms="soon"), 400, "BAD_REQUEST"),
    "malformed Arrow ids": (arrow(b"no arrow at all"), 400, "BAD_REQUEST"),
    "a cut Arrow stream of ids": (arrow(ROWS[:-40]), 400, "BAD_REQUEST"),
    "a null id in Arrow": (arrow(stream(pa.record_batch({"id": ["a", None]}))), 422, "NULL_ID"),
    "ids that are fractions": (arrow(stream(pa.record_batch({"id": [1.5]}))), 400, "BAD_REQUEST"),
    "malformed Arrow rows": (arrow(b"no arrow at all", PRODUCE), 400, "BAD_REQUEST"),
    "a record over the limit": (arrow(stream(pa.record_batch({"id": ["x" * 5_001]})), PRODUCE), 413, "TOO_LARGE"),
    "a topic that is no name": (arrow(ROWS, PRODUCE.replace("/t/", "/-t/")), 400, "BAD_REQUEST"),
    "a malformed chunk": (arrow(b"chunk", STAGE, **WRONG_DIGEST), 400, "BAD_REQUEST"),
    "a chunk without digest": (arrow(ROWS, STAGE, **STAGED), 400, "BAD_REQUEST"),
    "a chunk with another digest": (arrow(ROWS, STAGE, **WRONG_DIGEST), 400, "BAD_REQUEST"),
    "a stage without owner": (arrow(ROWS, STAGE.replace("owner=run:1&", ""), **STAGED), 400, "BAD_REQUEST"),
    "a stage without version": (arrow(ROWS, STAGE.replace("version=1", "version="), **STAGED), 400, "BAD_REQUEST"),
    "a stage with an unknown parameter": (arrow(ROWS, STAGE + "&writeId=x", **STAGED), 400, "BAD_REQUEST"),
    "a stage with a parameter twice": (arrow(ROWS, STAGE + "&chunk=1", **STAGED), 400, "BAD_REQUEST"),
    "an unknown claim": (
        request("POST", "/v1/namespaces/default/claims/" + "0" * 25 + "1" + ":complete"),
        404,
        "UNKNOWN_CLAIM",
    ),
    "a claim id that is none": (request("POST", "/v1/namespaces/default/claims/abc:release"), 400, "BAD_REQUEST"),
    "a verb that does not exist": (request("POST", "/v1/namespaces/default/claims/abc:forget"), 404, "NOT_FOUND"),
    "a body where none is taken": (
        request("POST", "/v1/namespaces/default/claims/" + "0" * 25 + "1" + ":renew", b"{}"),
        400,
        "BAD_REQUEST",
    ),
    "a mark that is none": (request("GET", "/v1/namespaces/default", Oncegate_Ledger="x"), 400, "BAD_REQUEST"),
    "another ledger's mark": (
        claim_json(b"{}", Oncegate_Ledger=f"{'0' * 32}:1:{'0' * 16}"),
        409,
        "LEDGER_BEHIND",
    ),
    "a deadline of no time": (
        claim_json(json.dumps({"token": TOKEN, "call": 0, "ids": ["a"]}).encode(), Oncegate_Timeout_Ms="0"),
        400,
        "BAD_REQUEST",
    ),
    "a deadline that is none": (claim_json(b"{}", Oncegate_Timeout_Ms="soon"), 400, "BAD_REQUEST"),
    "a parameter of another body": (
        request("POST", PRODUCE + "?id_col=id", b"{}", Content_Type=JSON),
        400,
        "BAD_REQUEST",
    ),
    "a header of another body": (claim_json(b"{}", Oncegate_Call="0"), 400, "BAD_REQUEST"),
    "a header that does not exist": (packed(bytes(16), Oncegate_Lease="5"), 400, "BAD_REQUEST"),
    "a header twice": (
        packed(bytes(16)).replace(b"\r\n\r\n", b"\r\noncegate-call: 1\r\n\r\n", 1),
        400,
        "BAD_REQUEST",
    ),
    "a member twice": (
        claim_json(b'{"token":"%s","call":0,"ids":["a"],"ids":["b"]}' % TOKEN.encode()),
        400,
        "BAD_REQUEST",
    ),
    "no Content-Length": (request("POST", CLAIM, Content_Type=JSON, Content_Length=""), 411, "LENGTH_REQUIRED"),
    "a body over the limit": (claim_json(b"x" * 100_001), 413, "TOO_LARGE"),
    "a Content-Length that is no number": (
        request("POST", CLAIM, Content_Type=JSON, Content_Length="ten"),
        400,
        "BAD_REQUEST",
    ),
    "no HTTP at all": (b"hello there\r\n\r\n", 400, "BAD_REQUEST"),
    "both forms of the length": (
        request("POST", CLAIM, b"0\r\n\r\n", Content_Type=JSON, Transfer_Encoding="chunked"),
        400,
        "BAD_REQUEST",
    ),
}


def roundabout(raw: bytes) -> bytes:
    """Adds an offer to upgrade, which routes the request through the framework instead of the fast path."""
    return raw.replace(b"\r\n", b"\r\nConnection: upgrade\r\nUpgrade: h2c\r\n", 1)
