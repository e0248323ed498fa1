"""The encodings agree: the same ids get the same verdicts, whatever the encodings of request and answer."""

import itertools
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncegate.engine.requests import ClaimResult
from oncegate.transports.http import answers
from tests.support.http_app import ARROW, CLAIM, JSON, PACKED, Http, Reply, open_http, stream, token
from tests.support.packed import read_claim_packed

NS = "/v1/namespaces/default"
TAKE, PRODUCE = f"{NS}/ids:take", f"{NS}/topics/t/records:produce"
ENCODINGS = list(itertools.product((JSON, PACKED, ARROW), (JSON, PACKED, ARROW)))
ROW_ENCODINGS = list(itertools.product((JSON, ARROW), (JSON, PACKED, ARROW)))
# An id that every encoding can carry: 16 bytes of text.
IDS = st.integers(0, 5).map("{:016}".format)
STEP = st.tuples(
    st.sampled_from(["claim", "take", "produce"]),
    st.lists(IDS, max_size=8),
    st.integers(0, 2),
    st.integers(0, 2),
    st.booleans(),
)
Verdict = dict[str, Any]
# A common scope for all verbs: each has its own by default.
ID_SET = "both"


def wish(encodings: tuple[str, str]) -> dict[str, str]:
    """Returns the headers beside a JSON body, which contains the rest."""
    return {"Accept": encodings[1]}


async def claim(http: Http, encodings: tuple[str, str], ids: list[str], as_token: str, call: int) -> Reply:
    headers = {"Accept": encodings[1], "Oncegate-Token": as_token, "Oncegate-Call": str(call)}
    if encodings[0] == JSON:
        message = {"token": as_token, "call": call, "ids": ids, "id_set": ID_SET}
        return await http.post_json(CLAIM, message, wish(encodings))
    headers["Oncegate-Id-Set"] = ID_SET
    return await http.post_raw(CLAIM, encodings[0], body_of(encodings[0], ids), headers)


async def take(http: Http, encodings: tuple[str, str], ids: list[str], owner: str) -> Reply:
    headers = {"Accept": encodings[1], "Oncegate-Owner": owner, "Oncegate-Id-Set": ID_SET}
    if encodings[0] == JSON:
        return await http.post_json(TAKE, {"owner": owner, "ids": ids, "id_set": ID_SET}, wish(encodings))
    return await http.post_raw(TAKE, encodings[0], body_of(encodings[0], ids), headers)


async def produce(http: Http, encodings: tuple[str, str], ids: list[str], as_token: str, call: int) -> Reply:
    """Produces rows as JSON or Arrow; an empty request is sent as Arrow."""
    headers = {"Accept": encodings[1], "Oncegate-Token": as_token, "Oncegate-Call": str(call)}
    if encodings[0] == JSON and ids:
        rows = [{"id": i} for i in ids]
        message = {"token": as_token, "call": call, "records": rows, "id_col": ["id"], "id_set": ID_SET}
        return await http.post_json(PRODUCE, message, wish(encodings))
    body = stream(pa.record_batch({"id": pa.array(ids, pa.string())}))
    return await http.post_raw(f"{PRODUCE}?id_col=id&id_set={ID_SET}", ARROW, body, headers)


def body_of(media: str, ids: list[str]) -> bytes:
    return "".join(ids).encode() if media == PACKED else stream(pa.record_batch({"id": pa.array(ids, pa.string())}))


def read(reply: Reply) -> tuple[str | None, list[Verdict]]:
    """Decodes the claim's text and the verdicts, as in JSON, from any of the three forms."""
    media = reply.headers["content-type"]
    if media == JSON:
        return reply.json.get("claim"), reply.json["verdicts"]
    if media == PACKED:
        return of_packed(read_claim_packed(reply.body))
    table = pa.ipc.open_stream(reply.body).read_all()
    claimed = (table.schema.metadata or {}).get(b"claim")
    rows = [
        {name: value for name, value in row.items() if value is not None and value is not False}
        for row in table.to_pylist()
    ]
    return claimed.decode() if claimed else None, rows


def of_packed(answer: ClaimResult) -> tuple[str | None, list[Verdict]]:
    as_json = msgspec.json.decode(answers.encode(answers.claim_message(answer, "")))
    return as_json["claim"], as_json["verdicts"]


async def step(http: Http, encodings: tuple[str, str], tokens: list[str], what: Any) -> object:
    """Runs one step. Returns its answer without times; completes the claim if the step asks for it."""
    verb, ids, who, call, complete = what
    if verb == "claim":
        reply = await claim(http, encodings, ids, tokens[who], call)
    elif verb == "take":
        reply = await take(http, encodings, ids, f"job {who}")
    else:
        reply = await produce(http, encodings, ids, tokens[who], call)
    if reply.status == 422:
        return reply.problem(422, "TOKEN_REUSED")["code"]
    assert reply.status == 200, reply.body
    claimed, verdicts = read(reply)
    if complete and claimed is not None:
        assert (await http.call("POST", f"{NS}/claims/{claimed}:complete")).status == 200
    return claimed is None, [{k: v for k, v in verdict.items() if k != "lease_left_ms"} for verdict in verdicts]


async def walk(encodings: tuple[str, str], tokens: list[str], steps: list[Any]) -> list[object]:
    """Returns the verdicts of every step, in a gateway of its own."""
    async with open_http() as http:
        return [await step(http, encodings, tokens, what) for what in steps]


@settings(max_examples=12, deadline=None)
@given(steps=st.lists(STEP, min_size=1, max_size=6))
async def test_the_same_requests_get_the_same_verdicts_in_every_encoding(steps: list[Any]) -> None:
    tokens = [token() for _ in range(3)]
    first, *others = [await walk(encodings, tokens, steps) for encodings in ENCODINGS]
    assert all(other == first for other in others)


@pytest.mark.parametrize("verb", ["claim", "take", "produce"])
async def test_ids_written_in_one_encoding_are_duplicates_in_every_other(verb: str) -> None:
    async with open_http() as http:
        for number, encodings in enumerate(ENCODINGS):
            ids = [f"{number:016}"]
            await step(http, encodings, [token()], (verb, ids, 0, 0, True))
            for other in ENCODINGS:
                assert read(await claim(http, other, ids, token(), 0))[1] == [{"verdict": "DUPLICATE"}]
            for other in ROW_ENCODINGS:
                assert read(await produce(http, other, ids, token(), 0))[1] == [{"verdict": "DUPLICATE"}]


@pytest.mark.parametrize("encodings", ROW_ENCODINGS)
async def test_rows_have_their_offsets_in_every_form(encodings: tuple[str, str]) -> None:
    async with open_http() as http:
        await produce(http, encodings, ["a" * 16], token(), 0)
        reply = await produce(http, encodings, ["a" * 16, "b" * 16, "c" * 16], token(), 0)
        if encodings[1] == JSON:
            assert reply.json["rows"] == 2
            assert reply.json["offsets"] == [{"partition": 0, "first_offset": 1, "rows": 2}]
        else:
            assert reply.headers["oncegate-offsets"] == "0:1:2"


async def test_a_lease_may_be_wished_for_in_every_encoding() -> None:
    async with open_http() as http:
        reply = await http.post_raw(CLAIM, PACKED, bytes(16), {"Oncegate-Lease-Ms": "5000"})
        assert read_claim_packed(reply.body).lease_ms == 5000
        given = await http.post_json(CLAIM, {"token": token(), "call": 0, "ids": ["a"], "lease_ms": 5000})
        assert given.json["lease_ms"] == 5000
