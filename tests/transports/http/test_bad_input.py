"""Bad requests over a real socket: one clear error each, before any effect: the ledger stands where it stood."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pyarrow as pa
import pytest
import pytest_asyncio

from tests.support.http_app import ARROW, CLAIM, JSON, PACKED, Reply, Served, request, served, stream, token

TOKEN = "6f1c2a9e4b7d4e5f8a0b1c2d3e4f5a6b"
RAW = {"Oncegate_Token": TOKEN, "Oncegate_Call": "0"}
PRODUCE = "/v1/namespaces/default/topics/t/records:produce"
STAGE = "/v1/namespaces/default/batches:stage?app=q&version=1&topic=t&owner=run:1&chunk=0"
LIVE = request("GET", "/healthz/live")
ROWS = stream(pa.record_batch({"id": ["a", "b"]}))


# One door for all cases: each uses ids of its own.
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def door() -> AsyncIterator[Served]:
    async with served(body_bytes=100_000, ids_per_request=1_000, record_bytes=5_000) as found:
        yield found


def claim_json(body: bytes, **headers: str) -> bytes:
    return request("POST", CLAIM, body, Content_Type=JSON, **headers)


def message(**change: Any) -> bytes:
    return claim_json(json.dumps({"token": TOKEN, "call": 0, "ids": ["a"]} | change).encode())


def packed(body: bytes, **headers: str) -> bytes:
    return request("POST", CLAIM, body, Content_Type=PACKED, **{**RAW, **headers})


def arrow(body: bytes, path: str = CLAIM, **headers: str) -> bytes:
    return request("POST", path, body, Content_Type=ARROW, **{**RAW, **headers})


WRONG_DIGEST = {"Content_Digest": "sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:"}
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
    "ids that are numbers": (arrow(stream(pa.record_batch({"id": [1]}))), 400, "BAD_REQUEST"),
    "malformed Arrow rows": (arrow(b"no arrow at all", PRODUCE), 400, "BAD_REQUEST"),
    "a record over the limit": (arrow(stream(pa.record_batch({"id": ["x" * 5_001]})), PRODUCE), 413, "TOO_LARGE"),
    "a topic that is no name": (arrow(ROWS, PRODUCE.replace("/t/", "/-t/")), 400, "BAD_REQUEST"),
    "a malformed chunk": (arrow(b"chunk", STAGE, **WRONG_DIGEST), 400, "BAD_REQUEST"),
    "a chunk without digest": (arrow(ROWS, STAGE), 400, "BAD_REQUEST"),
    "a chunk with another digest": (arrow(ROWS, STAGE, **WRONG_DIGEST), 400, "BAD_REQUEST"),
    "a stage without owner": (arrow(ROWS, STAGE.replace("owner=run:1&", "")), 400, "BAD_REQUEST"),
    "a stage without version": (arrow(ROWS, STAGE.replace("version=1", "version=")), 400, "BAD_REQUEST"),
    "a stage with an unknown parameter": (arrow(ROWS, STAGE + "&writeId=x"), 400, "BAD_REQUEST"),
    "a stage with a parameter twice": (arrow(ROWS, STAGE + "&chunk=1"), 400, "BAD_REQUEST"),
    "an unknown claim": (
        request("POST", "/v1/namespaces/default/claims/" + "0" * 26 + ":complete"),
        404,
        "UNKNOWN_CLAIM",
    ),
    "a claim id that is none": (request("POST", "/v1/namespaces/default/claims/abc:release"), 400, "BAD_REQUEST"),
    "a verb that does not exist": (request("POST", "/v1/namespaces/default/claims/abc:forget"), 404, "NOT_FOUND"),
    "a body where none is taken": (
        request("POST", "/v1/namespaces/default/claims/" + "0" * 26 + ":complete", b"{}"),
        400,
        "BAD_REQUEST",
    ),
    "a mark that is none": (request("GET", "/v1/namespaces/default", Oncegate_Ledger="x"), 400, "BAD_REQUEST"),
    "another ledger's mark": (
        claim_json(b"{}", Oncegate_Ledger=f"{'0' * 32}:1:{'0' * 16}"),
        409,
        "LEDGER_BEHIND",
    ),
    "a deadline that has passed": (
        claim_json(json.dumps({"token": TOKEN, "call": 0, "ids": ["a"]}).encode(), Oncegate_Timeout_Ms="0"),
        504,
        "DEADLINE",
    ),
    "a deadline that is none": (claim_json(b"{}", Oncegate_Timeout_Ms="soon"), 400, "BAD_REQUEST"),
    "no Content-Length": (request("POST", CLAIM, Content_Type=JSON, Content_Length=""), 411, "LENGTH_REQUIRED"),
    "a body over the limit": (claim_json(b"x" * 100_001), 413, "TOO_LARGE"),
    "a Content-Length that is no number": (
        request("POST", CLAIM, Content_Type=JSON, Content_Length="ten"),
        400,
        "BAD_REQUEST",
    ),
    "no HTTP at all": (b"hello there\r\n\r\n", 400, "BAD_REQUEST"),
    "both ways to say the length": (
        request("POST", CLAIM, b"0\r\n\r\n", Content_Type=JSON, Transfer_Encoding="chunked"),
        400,
        "BAD_REQUEST",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
async def test_a_bad_request_is_one_clear_error_and_leaves_the_ledger_where_it_was(
    case: tuple[bytes, int, str], door: Served
) -> None:
    raw, status, code = case
    before = door.position
    found = (await door.send(raw)).problem(status, code)
    assert "\n" not in found["detail"]
    assert door.position == before
    assert (await door.send(message())).json["verdicts"] == [{"verdict": "GRANTED"}], "the door still works"


async def test_an_unknown_namespace_is_answered_with_the_line_that_creates_it(door: Served) -> None:
    raw = request("POST", CLAIM.replace("default", "mail"), b"{}", Content_Type=JSON)
    detail = (await door.send(raw)).problem(404, "NOT_FOUND")["detail"]
    assert "curl -X PUT" in detail
    assert "/v1/namespaces/mail" in detail


async def test_chunked_bodies_are_refused_because_their_length_is_unknown(door: Served) -> None:
    raw = request("POST", CLAIM, Content_Type=JSON, Content_Length="", Transfer_Encoding="chunked")
    before = door.position
    found = (await door.send(raw, b"2\r\n{}\r\n0\r\n\r\n")).problem(411, "LENGTH_REQUIRED")
    assert "chunked" in found["detail"]
    assert door.position == before


async def test_a_body_over_the_limit_is_refused_before_a_byte_of_it_is_sent(door: Served) -> None:
    head = request("POST", CLAIM, Content_Type=JSON, Content_Length="100001", Expect="100-continue")
    (await door.send(head)).problem(413, "TOO_LARGE")


async def test_a_body_at_the_limit_is_read(door: Served) -> None:
    ids = {"token": TOKEN, "call": 0, "ids": ["a"]}
    body = json.dumps(ids).encode().ljust(100_000)
    assert (await door.send(claim_json(body))).status == 200


async def test_a_body_that_ends_early_takes_no_effect(door: Served) -> None:
    before = door.position
    whole = message()
    with pytest.raises((EOFError, ConnectionError)):
        await door.send(whole[:-5], end=True)
    assert door.position == before
    assert door.program.gateway.admission.requests == 0
    assert door.program.gateway.admission.size_bytes == 0


async def test_a_body_that_does_not_come_is_given_up_at_the_deadline_and_its_room_is_free_again(door: Served) -> None:
    before = door.position
    body = json.dumps({"token": TOKEN, "call": 0, "ids": ["a"]}).encode()
    raw = claim_json(body, Oncegate_Timeout_Ms="200")
    found = (await door.send(raw[:-5])).problem(504, "DEADLINE")
    assert (found["action"], found["effect"]) == ("retry", "none")
    assert door.position == before
    assert door.program.gateway.admission.size_bytes == 0


@pytest.mark.parametrize("together", [True, False])
async def test_bytes_beyond_the_content_length_do_not_cost_the_request_its_answer(together: bool, door: Served) -> None:
    pieces = [message() + b"GARBAGE\r\n\r\n"] if together else [message(), b"GARBAGE\r\n\r\n"]
    first = await door.send(*pieces)
    assert first.json["verdicts"] == [{"verdict": "GRANTED"}]
    assert (await door.send(message(token=token(), ids=["b"]))).status == 200


async def test_a_token_and_call_used_again_with_other_ids_are_refused(door: Served) -> None:
    await door.send(message())
    before = door.position
    (await door.send(message(ids=["b"]))).problem(422, "TOKEN_REUSED")
    assert door.position == before


async def test_a_released_claim_is_refused_and_repeated_settles_are_harmless(door: Served) -> None:
    claim = (await door.send(message())).json["claim"]

    async def settle(verb: str, path: str = "default") -> Reply:
        return await door.send(request("POST", f"/v1/namespaces/{path}/claims/{claim}:{verb}"))

    assert (await settle("release")).json["state"] == "RELEASED"
    before = door.position
    assert (await settle("release")).json["state"] == "RELEASED"
    for verb in ("complete", "renew"):
        assert (await settle(verb)).problem(409, "RELEASED_CLAIM")["action"] == "stop"
    await door.send(request("PUT", "/v1/namespaces/other"))
    (await settle("complete", "other")).problem(404, "UNKNOWN_CLAIM")
    assert door.position == before


async def test_bytes_and_requests_in_flight_are_bounded_before_bodies_are_read() -> None:
    async with served(body_bytes=1_000, bytes_in_flight=1_500) as door:
        head = request("POST", CLAIM, Content_Type=JSON, Content_Length="1000")
        waiting = asyncio.create_task(door.send(head, b"{"))
        while door.program.gateway.admission.size_bytes == 0:
            await door.send(LIVE)
        found = (await door.send(head)).problem(503, "OVERLOADED")
        assert (found["action"], found["retry_after_ms"]) == ("retry", 200)
        waiting.cancel()
        while door.program.gateway.admission.size_bytes:
            await door.send(LIVE)
        assert (await door.send(message())).status == 200
