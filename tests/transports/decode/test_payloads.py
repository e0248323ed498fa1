"""Payloads in each encoding: equal payloads have equal digests in all of them; invalid ones are refused."""

import itertools
from typing import Any

import pyarrow as pa
import pytest

from oncegate.core.errors import BadRequest, TooLarge
from oncegate.engine.limits import Limits
from oncegate.hashing.payloads import PayloadDigester
from oncegate.transports.decode import payloads
from tests.support.http_app import ARROW, CLAIM, JSON, PACKED, Http, Reply, open_http, stream, token
from tests.support.packed import read_claim_packed

PRODUCE = "/v1/namespaces/default/topics/t/records:produce"
# Ids and payloads that every encoding can carry: 16 bytes of text.
IDS = [f"{n:016}" for n in range(4)]
SAME, OTHER = "the same payload", "another payload."


def body_of(media: str, ids: list[str], beside: list[str]) -> bytes:
    if media == PACKED:
        return "".join(itertools.chain(*zip(ids, beside, strict=True))).encode()
    return stream(pa.record_batch({"id": pa.array(ids, pa.string()), "what it is": pa.array(beside, pa.string())}))


async def claim(http: Http, media: str, ids: list[str], beside: list[str], **more: str) -> Reply:
    """Claims ids with a token of its own, and gets JSON."""
    if media == JSON:
        return await http.post_json(CLAIM, {"token": token(), "call": 0, "ids": ids, "payloads": beside})
    named = {"Oncegate-Payloads": "1"} if media == PACKED else {"Oncegate-Digest-Cols": "what%20it%20is"}
    return await http.post_raw(CLAIM, media, body_of(media, ids, beside), {"Accept": JSON, **named, **more})


def words(reply: Reply) -> list[str]:
    assert reply.status == 200, reply.body
    return [verdict["verdict"] for verdict in reply.json["verdicts"]]


async def done(http: Http, media: str, ids: list[str], beside: list[str]) -> None:
    claimed = (await claim(http, media, ids, beside)).json["claim"]
    assert (await http.call("POST", f"/v1/namespaces/default/claims/{claimed}:complete")).status == 200


@pytest.mark.parametrize("first", [JSON, PACKED, ARROW])
async def test_every_encoding_knows_the_payload_that_came_in_another(first: str) -> None:
    async with open_http() as http:
        await done(http, first, IDS[:2], [SAME, SAME])
        for media in (JSON, PACKED, ARROW):
            reply = await claim(http, media, IDS[:3], [SAME, OTHER, OTHER])
            assert words(reply)[:2] == ["DUPLICATE", "CONFLICT"], media
            await http.call("POST", f"/v1/namespaces/default/claims/{reply.json['claim']}:release")


@pytest.mark.parametrize("media", [JSON, PACKED, ARROW])
async def test_an_id_twice_in_one_request_with_two_payloads_is_a_conflict(media: str) -> None:
    async with open_http() as http:
        reply = await claim(http, media, [IDS[0]] * 3, [SAME, OTHER, SAME])
        assert words(reply) == ["GRANTED", "CONFLICT", "SAME"]


async def test_a_conflict_is_reported_in_each_form_of_answer() -> None:
    async with open_http() as http:
        await done(http, ARROW, IDS[:1], [SAME])
        packed = await claim(http, ARROW, IDS[:1], [OTHER], Accept=PACKED)
        assert read_claim_packed(packed.body).verdicts.tolist() == [6]
        arrow = await claim(http, ARROW, IDS[:1], [OTHER], Accept=ARROW)
        assert pa.ipc.open_stream(arrow.body).read_all().column("verdict").to_pylist() == ["CONFLICT"]
        counters = (await http.get("/v1/namespaces/default")).json["counters"]
        assert (counters["conflicts"], counters["duplicates"]) == (2, 0)


async def produce(http: Http, media: str, rows: list[dict[str, Any]], digest_col: str) -> Reply:
    if media == JSON:
        columns = {"id_col": ["id"], "digest_col": digest_col.split(",")}
        return await http.post_json(PRODUCE, {"token": token(), "call": 0, "records": rows, **columns})
    query = f"?id_col=id&digest_col={digest_col}"
    return await http.post_raw(PRODUCE + query, ARROW, stream(pa.RecordBatch.from_pylist(rows)), {"Accept": JSON})


@pytest.mark.parametrize(("first", "second"), [(JSON, ARROW), (ARROW, JSON)])
async def test_rows_with_another_payload_under_their_id_are_not_written(first: str, second: str) -> None:
    async with open_http() as http:
        rows = [{"id": "a", "n": 1, "text": "x"}, {"id": "b", "n": 2, "text": None}]
        assert words(await produce(http, first, rows, "n,text")) == ["GRANTED"] * 2
        rows[0]["n"] = 7
        again = await produce(http, second, [*rows, {"id": "b", "n": 2, "text": ""}], "n,text")
        assert (words(again), again.json["rows"]) == (["CONFLICT", "DUPLICATE", "CONFLICT"], 0)


async def test_ids_claimed_with_text_are_produced_with_the_same_number() -> None:
    async with open_http() as http:
        await done(http, JSON, ["a", "b"], ["12", "12"])
        reply = await produce(http, ARROW, [{"id": "a", "n": 12}, {"id": "b", "n": 13}], "n&id_set=")
        assert words(reply) == ["DUPLICATE", "CONFLICT"]


async def test_explain_shows_whether_a_payload_would_be_recognized() -> None:
    async with open_http() as http:
        await done(http, JSON, ["a"], ["x"])
        await http.claim("b")
        assert (await http.get("/v1/namespaces/default/ids:explain?id=a")).json["digest_kept"] is True
        assert "digest_kept" not in (await http.get("/v1/namespaces/default/ids:explain?id=b")).json


@pytest.mark.parametrize(
    ("media", "body", "headers", "says"),
    [
        (PACKED, b"i" * 48, {"Oncegate-Payloads": "1"}, "32 bytes an id"),
        (PACKED, b"i" * 32, {"Oncegate-Payloads": "yes"}, "it is 1 where"),
        (ARROW, {"id": ["a"]}, {"Oncegate-Digest-Cols": "x"}, "digest_col names 'x'"),
        (ARROW, {"id": ["a"]}, {"Oncegate-Digest-Cols": "id"}, "no column"),
        (ARROW, {"id": ["a"], "x": [0.5]}, {"Oncegate-Digest-Cols": "x"}, "send anything else as its text"),
        (ARROW, {"id": ["a"], "x": ["b"]}, {"Oncegate-Digest-Cols": "x,x"}, "named twice"),
    ],
)
async def test_payloads_that_cannot_be_read_are_refused_before_any_effect(
    media: str, body: Any, headers: dict[str, str], says: str
) -> None:
    async with open_http() as http:
        before = http.position
        sent = body if media == PACKED else stream(pa.record_batch(body))
        refused = await http.post_raw(CLAIM, media, sent, headers)
        assert says in refused.problem(400, "BAD_REQUEST")["detail"]
        assert http.position == before


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["x"], "1 payloads for 2 ids"),
        ([["x"], ["y", "z"]], "the same number of columns"),
        ([[], []], "the same number of columns"),
        ([["x"] * 17] * 2, "17 columns"),
    ],
)
async def test_json_payloads_that_do_not_fit_their_ids_are_refused(given: Any, says: str) -> None:
    async with open_http() as http:
        message = {"token": token(), "call": 0, "ids": ["a", "b"], "payloads": given}
        assert says in (await http.post_json(CLAIM, message)).problem(400, "BAD_REQUEST")["detail"]


async def test_payloads_of_rows_without_ids_are_refused() -> None:
    async with open_http() as http:
        message = {"token": token(), "call": 0, "records": [{"n": 1}], "digest_col": ["n"]}
        assert "without id_col" in (await http.post_json(PRODUCE, message)).problem(400, "BAD_REQUEST")["detail"]


async def test_the_same_call_with_other_payloads_is_another_request() -> None:
    async with open_http() as http:
        mine = token()
        for beside, status in ((["x"], 200), (["x"], 200), (["y"], 422), (None, 422)):
            message = {"token": mine, "call": 0, "ids": ["a"], **({} if beside is None else {"payloads": beside})}
            assert (await http.post_json(CLAIM, message)).status == status, beside


def test_a_payload_larger_than_a_record_is_refused_with_its_place() -> None:
    with pytest.raises(TooLarge, match="payload at place 1 has 9 bytes"):
        payloads.of_json(["a", "b" * 9], 2, PayloadDigester(bytes(32)), Limits(record_bytes=8))


def test_lists_of_one_and_plain_text_are_the_same_payload() -> None:
    digester = PayloadDigester(bytes(32))
    plain = payloads.of_json(["a", None], 2, digester, Limits())
    assert payloads.of_json([["a"], [None]], 2, digester, Limits()).tolist() == plain.tolist()
    assert payloads.of_json([["a"], None], 2, digester, Limits()).tolist() == plain.tolist()


def test_names_of_payload_columns_are_percent_encoded_and_apart() -> None:
    assert payloads.column_names("a%2Cb, c%20d ,") == ["a,b", "c d"]
    assert payloads.column_names(None) == []
    with pytest.raises(BadRequest, match="named twice"):
        payloads.column_names("a,a")
