"""An id is identified by its scope and itself: two topics accept the same ids, and writes with one scope share them."""

from collections.abc import Callable, Coroutine
from typing import Any

import pyarrow as pa
import pytest

from oncegate.core.verdicts import BY_BYTE
from tests.support.http_app import ARROW, CLAIM, JSON, PACKED, Http, Reply, open_http, stream, token
from tests.support.packed import read_claim_packed

NS = "/v1/namespaces/default"
TAKE = f"{NS}/ids:take"
IDS = ["sixteen bytes a ", "sixteen bytes b "]
ENCODINGS = pytest.mark.parametrize("media", [JSON, PACKED, ARROW])
FORMS = pytest.mark.parametrize("media", [JSON, ARROW])
Ask = Callable[..., Coroutine[Any, Any, Reply]]


def raw(media: str, ids: list[str]) -> bytes:
    if media == PACKED:
        return "".join(ids).encode()
    return stream(pa.record_batch({"id": ids}))


def named(id_set: str | None) -> dict[str, str]:
    return {} if id_set is None else {"Oncegate-Id-Set": id_set}


def member(id_set: str | None) -> dict[str, str]:
    return {} if id_set is None else {"id_set": id_set}


async def claim(http: Http, media: str, id_set: str | None = None, **more: Any) -> Reply:
    """Claims ids and completes the granted ones."""
    if media == JSON:
        reply = await http.post_json(CLAIM, {"token": token(), "call": 0, "ids": IDS, **member(id_set), **more})
        claimed = reply.json["claim"]
    else:
        reply = await http.post_raw(CLAIM, media, raw(media, IDS), {"Accept": JSON, **named(id_set)})
        claimed = reply.json["claim"]
    if claimed is not None:
        await http.call("POST", f"{NS}/claims/{claimed}:complete")
    return reply


async def take(http: Http, media: str, id_set: str | None = None) -> Reply:
    if media == JSON:
        return await http.post_json(TAKE, {"owner": "load", "ids": IDS, **member(id_set)})
    headers = {"Oncegate-Owner": "load", "Accept": JSON, **named(id_set)}
    return await http.call("POST", TAKE, raw(media, IDS), {"Content-Type": media, **headers})


async def produce(http: Http, media: str, topic: str, id_set: str | None = None, by: str = "", **more: Any) -> Reply:
    path, as_token = f"{NS}/topics/{topic}/records:produce", by or token()
    if media == JSON:
        records = [{"id": one} for one in IDS]
        message = {"token": as_token, "call": 0, "records": records, "id_col": ["id"], **member(id_set), **more}
        return await http.post_json(path, message)
    query = f"?id_col=id{'' if id_set is None else f'&id_set={id_set}'}"
    return await http.post_raw(path + query, ARROW, raw(ARROW, IDS), {"Accept": JSON, "Oncegate-Token": as_token})


def words(reply: Reply) -> list[str]:
    assert reply.status == 200, reply.body
    return [verdict["verdict"] for verdict in reply.json["verdicts"]]


async def rows_of(http: Http, topic: str) -> list[str]:
    reply = await http.get(f"{NS}/topics/{topic}/partitions/0/records", Accept=JSON)
    return [row["id"] for row in reply.json["records"]]


@FORMS
async def test_the_same_ids_are_written_once_to_each_of_two_topics(media: str) -> None:
    async with open_http() as http:
        for topic in ("raw", "enriched"):
            attempt = token()
            written = await produce(http, media, topic, by=attempt)
            assert (words(written), written.json["rows"], written.json["id_set"]) == (["GRANTED"] * 2, 2, topic)
            again = await produce(http, media, topic, by=attempt)
            assert (words(again), again.json["rows"]) == (["DUPLICATE"] * 2, 0)
            assert all(verdict["own"] for verdict in again.json["verdicts"])
            assert words(await produce(http, media, topic)) == ["DUPLICATE"] * 2
        assert [await rows_of(http, topic) for topic in ("raw", "enriched")] == [IDS, IDS]


async def test_one_attempt_may_write_its_ids_to_one_topic_and_then_to_another() -> None:
    async with open_http() as http:
        attempt = token()
        for call, topic in enumerate(("raw", "enriched")):
            assert (await produce(http, JSON, topic, by=attempt, call=call)).json["rows"] == 2


@ENCODINGS
async def test_claims_takes_and_rows_do_not_meet(media: str) -> None:
    async with open_http() as http:
        calls = (claim(http, media), take(http, media), produce(http, ARROW, "t"), produce(http, ARROW, "u"))
        replies = [await call for call in calls]
        assert [words(reply) for reply in replies] == [["GRANTED"] * 2] * 4
        assert [reply.json["id_set"] for reply in replies] == ["", "dedup", "t", "u"]


@ENCODINGS
@pytest.mark.parametrize("first", [claim, take, produce])
async def test_what_names_one_set_meets_in_it(media: str, first: Ask) -> None:
    async with open_http() as http:

        async def ask(verb: Ask, id_set: str) -> Reply:
            if verb is produce:
                return await produce(http, JSON if media == JSON else ARROW, "t", id_set)
            return await verb(http, media, id_set)

        for id_set in ("", "dedup", "orders"):
            assert words(await ask(first, id_set)) == ["GRANTED"] * 2
            for verb in {claim, take, produce} - {first}:
                assert words(await ask(verb, id_set)) == ["DUPLICATE"] * 2


@pytest.mark.parametrize("id_set", ["orders", "caf%C3%A9%20%26"])
async def test_every_answer_names_its_set_percent_encoded_where_it_has_no_member_for_it(id_set: str) -> None:
    async with open_http() as http:
        for media in (PACKED, ARROW):
            headers = {"Accept": media, **named(id_set)}
            claimed = await http.post_raw(CLAIM, media, raw(media, IDS), headers)
            taken = await http.post_raw(TAKE, media, raw(media, IDS), {**headers, "Oncegate-Owner": "load"})
            assert {reply.headers["oncegate-id-set"] for reply in (claimed, taken)} == {id_set}
        path = f"{NS}/topics/t/records:produce?id_col=id&id_set={id_set}"
        written = await http.post_raw(path, ARROW, raw(ARROW, IDS), {"Accept": PACKED})
        assert written.headers["oncegate-id-set"] == id_set
        verdicts = read_claim_packed(written.body).verdicts
        assert {BY_BYTE[int(byte)].verdict.name for byte in verdicts} == {"BUSY"}


async def test_an_id_is_explained_in_the_set_that_is_named() -> None:
    async with open_http() as http:
        await produce(http, JSON, "raw")
        query = f"{NS}/ids:explain?id={IDS[0].replace(' ', '%20')}"
        free = (await http.get(query)).json
        assert (free["state"], free["id_set"]) == ("ABSENT", "")
        known = (await http.get(f"{query}&id_set=raw")).json
        assert known["fingerprint"] != free["fingerprint"], "one id of two sets is two"
        assert (known["state"], known["id_set"], known["topic"]) == ("DONE", "raw", "raw")


async def test_payloads_are_compared_within_a_set() -> None:
    async with open_http() as http:
        for topic, payload, verdict in (("raw", 1, "GRANTED"), ("enriched", 2, "GRANTED"), ("raw", 2, "CONFLICT")):
            records = [{"id": "a", "n": payload}]
            message = {"token": token(), "call": 0, "records": records, "id_col": ["id"], "digest_col": ["n"]}
            reply = await http.post_json(f"{NS}/topics/{topic}/records:produce", message)
            assert words(reply) == [verdict]


async def test_ids_of_a_batch_are_forgotten_in_each_set_with_its_ack() -> None:
    async with open_http() as http:
        batch, as_token = {"driver": "load", "batch": 3}, token()
        for topic in ("raw", "enriched"):
            assert words(await produce(http, JSON, topic, **batch)) == ["GRANTED"] * 2
        epoch = (await http.post_json(f"{NS}/drivers/load:register", {"token": as_token})).json["epoch"]
        acked = {"token": as_token, "epoch": epoch, "upto": [], "batch": 3}
        assert (await http.post_json(f"{NS}/drivers/load:ack", acked)).status == 200
        for topic in ("raw", "enriched"):
            assert words(await produce(http, JSON, topic, **batch)) == ["STALE"] * 2
            assert words(await produce(http, JSON, topic)) == ["GRANTED"] * 2


async def test_a_set_is_refused_where_no_row_has_an_id_and_where_its_name_is_too_long() -> None:
    async with open_http() as http:
        path = f"{NS}/topics/t/records:produce"
        message = {"token": token(), "call": 0, "records": [{"id": "a"}], "id_set": "orders"}
        (await http.post_json(path, message)).problem(400, "BAD_REQUEST")
        (await http.post_raw(f"{path}?id_set=orders", ARROW, raw(ARROW, IDS))).problem(400, "BAD_REQUEST")
        long = "x" * (http.gateway.limits.name_bytes + 1)
        (await produce(http, JSON, "t", long)).problem(413, "TOO_LARGE")
        (await http.post_raw(CLAIM, PACKED, raw(PACKED, IDS), named(long))).problem(413, "TOO_LARGE")
        (await http.get(f"{NS}/ids:explain?id=a&id_set={long}")).problem(413, "TOO_LARGE")
        assert (await http.get(f"{NS}/topics")).json == {"topics": [], "next": None}
