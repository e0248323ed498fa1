"""The doors agree: the same ids get the same verdicts as JSON, packed and Arrow."""

from typing import Any

import msgspec
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from oncegate.transports.http import codecs
from tests.http.door import ARROW, CLAIM, PACKED, Door, open_door, stream, token

DOORS = ("json", "packed", "arrow")
# An id that every door can carry: 16 bytes that are text.
IDS = st.integers(0, 5).map("{:016}".format)
STEP = st.tuples(st.lists(IDS, max_size=8), st.integers(0, 2), st.integers(0, 2), st.booleans())


async def claim(door: Door, kind: str, ids: list[str], as_token: str, call: int) -> tuple[str | None, list[Any]]:
    """The claim's text and each verdict's (byte, number)."""
    if kind == "json":
        reply = await door.post_json(CLAIM, {"token": as_token, "call": call, "ids": ids})
        assert reply.status in {200, 422}, reply.body
        if reply.status == 422:
            return "TOKEN_REUSED", []
        return reply.json["claim"], [tuple(sorted(verdict.items())) for verdict in reply.json["verdicts"]]
    headers = {"Oncegate-Token": as_token, "Oncegate-Call": str(call)}
    if kind == "packed":
        reply = await door.post_raw(CLAIM, PACKED, "".join(ids).encode(), headers)
    else:
        reply = await door.post_raw(CLAIM, ARROW, stream(pa.record_batch({"id": pa.array(ids, pa.string())})), headers)
    if reply.status == 422:
        return "TOKEN_REUSED", []
    answer = codecs.read_claim_packed(reply.body)
    as_json = msgspec.json.decode(codecs.claim_json(answer))
    return as_json["claim"], [tuple(sorted(verdict.items())) for verdict in as_json["verdicts"]]


def without_time(verdicts: list[Any]) -> list[Any]:
    return [tuple((k, v) for k, v in verdict if k != "lease_left_ms") for verdict in verdicts]


async def walk(kind: str, tokens: list[str], steps: list[Any]) -> list[Any]:
    """The verdicts of every step, in a gateway of its own."""
    seen = []
    async with open_door() as door:
        for ids, who, call, complete in steps:
            claimed, verdicts = await claim(door, kind, ids, tokens[who], call)
            seen.append((claimed is None, claimed == "TOKEN_REUSED", without_time(verdicts)))
            if complete and claimed not in {None, "TOKEN_REUSED"}:
                reply = await door.call("POST", f"/v1/namespaces/default/claims/{claimed}:complete")
                assert reply.status == 200
    return seen


@settings(max_examples=25, deadline=None)
@given(steps=st.lists(STEP, min_size=1, max_size=6))
async def test_the_same_requests_get_the_same_verdicts_through_every_door(steps: list[Any]) -> None:
    tokens = [token() for _ in range(3)]
    first, *others = [await walk(kind, tokens, steps) for kind in DOORS]
    assert all(other == first for other in others)


async def test_what_one_door_has_written_is_a_duplicate_at_every_other() -> None:
    async with open_door() as door:
        for number, kind in enumerate(DOORS):
            ids = [f"{number:016}"]
            claimed, _ = await claim(door, kind, ids, token(), 0)
            await door.call("POST", f"/v1/namespaces/default/claims/{claimed}:complete")
            for other in DOORS:
                assert (await claim(door, other, ids, token(), 0))[1] == [(("verdict", "DUPLICATE"),)]


async def test_a_lease_may_be_wished_for_at_every_door() -> None:
    async with open_door() as door:
        reply = await door.post_raw(CLAIM, PACKED, bytes(16), {"Oncegate-Lease-Ms": "5000"})
        assert codecs.read_claim_packed(reply.body).lease_ms == 5000
        given = await door.post_json(CLAIM, {"token": token(), "call": 0, "ids": ["a"], "lease_ms": 5000})
        assert given.json["lease_ms"] == 5000
