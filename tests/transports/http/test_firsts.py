"""`locate` and `result` on the wire: the same in JSON, packed and Arrow, refused where they have no meaning."""

import base64
import json
import struct
from collections.abc import AsyncIterator
from typing import Any

import pyarrow as pa
import pytest

from tests.support.http_app import ARROW, CLAIM, JSON, PACKED, Http, Reply, open_http, stream, token

NS = "/v1/namespaces/default"
PRODUCE = f"{NS}/topics/orders/records:produce"
RESULT = b"departed 18:05"
WRITTEN, CLAIMED, NEW = ["sixteen bytes a ", "sixteen bytes b "], "sixteen bytes c ", "sixteen bytes d "
ASKED = [WRITTEN[1], NEW, CLAIMED, WRITTEN[0]]
EXPECTED = [(("orders", 0, 1), None), None, (None, RESULT), (("orders", 0, 0), None)]
MEDIA = pytest.mark.parametrize("media", [JSON, PACKED, ARROW])


@pytest.fixture
async def http() -> AsyncIterator[Http]:
    """A gateway with two written ids in the topic's scope, and a third that was claimed and completed with a result."""
    async with open_http() as http:
        await produce(http)
        message = {"token": token(), "call": 0, "ids": [CLAIMED], "id_set": "orders"}
        claimed = (await http.post_json(CLAIM, message)).json["claim"]
        assert (await complete(http, claimed, RESULT)).status == 200
        yield http


async def produce(http: Http, as_token: str | None = None, ids: list[str] | None = None, query: str = "") -> Reply:
    records = [{"id": one} for one in ids or WRITTEN]
    message = {"token": as_token or token(), "call": 0, "records": records, "id_col": ["id"]}
    return await http.post_json(PRODUCE + query, message)


async def complete(http: Http, claim: str, result: bytes) -> Reply:
    message = {"result": base64.b64encode(result).decode()}
    return await http.post_json(f"{NS}/claims/{claim}:complete", message)


async def ask(http: Http, media: str, path: str = CLAIM) -> Reply:
    """Asks about `ASKED` in the topic's scope, with request and answer in this encoding."""
    headers = {"Accept": media}
    if media == JSON:
        named: dict[str, Any] = {"owner": "job"} if path != CLAIM else {"token": token(), "call": 0}
        return await http.post_json(f"{path}?locate=true", {**named, "ids": ASKED, "id_set": "orders"}, headers)
    body = "".join(ASKED).encode() if media == PACKED else stream(pa.record_batch({"id": ASKED}))
    headers |= {"Oncegate-Id-Set": "orders", **({"Oncegate-Owner": "job"} if path != CLAIM else {})}
    headers |= {} if path != CLAIM else {"Oncegate-Token": token(), "Oncegate-Call": "0"}
    return await http.call("POST", f"{path}?locate=true", body, {"Content-Type": media, **headers})


def firsts(media: str, body: bytes) -> list[Any]:
    """Returns offset and result of each duplicate; None for other verdicts."""
    return {JSON: of_json, PACKED: of_packed, ARROW: of_arrow}[media](body)


def of_json(body: bytes) -> list[Any]:
    told: list[Any] = []
    for one in json.loads(body)["verdicts"]:
        assert ("place" in one) == (one["verdict"] == "DUPLICATE")
        place, result = one.get("place"), one.get("result")
        found = place and (place["topic"], place["partition"], place["offset"])
        is_first = one["verdict"] == "DUPLICATE"
        told.append((found, None if result is None else base64.b64decode(result)) if is_first else None)
    return told


def of_packed(body: bytes) -> list[Any]:
    """Decodes by the description in `answers`, independently of its code."""
    count = struct.unpack_from("<I", body, 20)[0]
    verdicts, at = body[24 : 24 + count], 24 + count
    topics, at = listed(body, at)
    duplicates = [place for place, byte in enumerate(verdicts) if byte & 15 == 2]
    places = [struct.unpack_from("<IIQ", body, at + 16 * n) for n in range(len(duplicates))]
    results, at = listed(body, at + 16 * len(duplicates))
    numbers = struct.unpack_from(f"<{len(duplicates)}I", body, at)
    assert at + 4 * len(duplicates) == len(body)
    told: list[Any] = [None] * count
    for at, (topic, partition, offset), result in zip(duplicates, places, numbers, strict=True):
        place = None if topic == 2**32 - 1 else (topics[topic].decode(), partition, offset)
        told[at] = (place, None if result == 2**32 - 1 else results[result])
    return told


def listed(body: bytes, at: int) -> tuple[list[bytes], int]:
    (count,), items = struct.unpack_from("<I", body, at), []
    at += 4
    for _ in range(count):
        (size,) = struct.unpack_from("<I", body, at)
        items.append(body[at + 4 : at + 4 + size])
        at += 4 + size
    return items, at


def of_arrow(body: bytes) -> list[Any]:
    rows = pa.ipc.open_stream(body).read_all().to_pylist()
    places = [None if row["offset"] is None else (row["topic"], row["partition"], row["offset"]) for row in rows]
    told = zip(rows, places, strict=True)
    return [(place, row["result"]) if row["verdict"] == "DUPLICATE" else None for row, place in told]


@MEDIA
@pytest.mark.parametrize("path", [CLAIM, f"{NS}/ids:take"])
async def test_each_duplicate_names_its_first_in_every_encoding(http: Http, media: str, path: str) -> None:
    reply = await ask(http, media, path)
    assert (reply.status, reply.headers["content-type"]) == (200, media), reply.body
    assert firsts(media, reply.body) == EXPECTED


@MEDIA
async def test_rows_that_were_written_before_have_their_offsets(http: Http, media: str) -> None:
    batch = pa.record_batch({"id": [WRITTEN[1], CLAIMED]})
    headers = {"Content-Type": ARROW, "Accept": media, "Oncegate-Token": token(), "Oncegate-Call": "0"}
    reply = await http.call("POST", f"{PRODUCE}?id_col=id&locate=true", stream(batch), headers)
    assert firsts(media, reply.body) == [EXPECTED[0], EXPECTED[2]]
    answer = await produce(http, ids=[WRITTEN[0]], query="?locate=true")
    assert firsts(JSON, answer.body) == [EXPECTED[3]]


@MEDIA
async def test_who_does_not_ask_is_answered_as_ever(http: Http, media: str) -> None:
    located = await ask(http, media)
    for query in ("", "?locate=false"):
        message = {"token": token(), "call": 0, "ids": ASKED, "id_set": "orders"}
        plain = await http.post_json(f"{CLAIM}{query}", message, {"Accept": media})
        assert len(plain.body) < len(located.body)
        assert b"orders" not in plain.body.replace(b'"id_set":"orders"', b"")


@pytest.mark.parametrize(
    ("path", "why"),
    [
        (f"{CLAIM}?locate=yes", "locate"),
        (f"{CLAIM}?locate=true&locate=true", "there twice"),
        (f"{NS}/topics/plain/records:produce?locate=true", "these rows have none"),
        (f"{NS}/producers/p/sequences:claim?locate=true", "'locate' is not taken here"),
        (f"{NS}/ids:explain?id=a&locate=true", "'locate' is not taken here"),
    ],
)
async def test_locate_is_refused_where_it_means_nothing(http: Http, path: str, why: str) -> None:
    before = http.position
    if "explain" in path:
        reply = await http.get(path)
    else:
        message = {"token": token(), "call": 0, **({"records": [{"a": 1}]} if "produce" in path else {"ids": ["x"]})}
        reply = await http.post_json(path, message)
    assert why in reply.problem(400, "BAD_REQUEST")["detail"]
    assert http.position == before


async def test_a_retry_of_an_own_write_gets_its_offsets_again(http: Http) -> None:
    mine = token()
    first = (await produce(http, mine, ["x", "y"])).json
    assert "offsets_before" not in first
    again = (await produce(http, mine, ["x", "y"])).json
    assert (again["rows"], again["offsets"], again["offsets_before"]) == (0, [], first["offsets"])


@pytest.mark.parametrize("media", [PACKED, ARROW])
async def test_a_retry_in_arrow_gets_its_offsets_in_a_header(http: Http, media: str) -> None:
    headers = {"Content-Type": ARROW, "Accept": media, "Oncegate-Token": token(), "Oncegate-Call": "0"}
    body = stream(pa.record_batch({"id": ["x", "y"]}))
    first, again = [await http.call("POST", f"{PRODUCE}?id_col=id", body, headers) for _ in range(2)]
    assert "oncegate-offsets-before" not in first.headers
    assert (again.headers["oncegate-offsets"], again.headers["oncegate-offsets-before"]) == ("", "0:2:2")


async def test_the_first_result_of_a_claim_is_kept_and_the_answer_shows_it(http: Http) -> None:
    claimed = (await http.claim("x"))["claim"]
    first, again = [(await complete(http, claimed, result)).json for result in (b"one", b"two")]
    assert (first["result"], first["other_result"]) == (base64.b64encode(b"one").decode(), False)
    assert (again["state"], again["result"], again["other_result"]) == ("DONE", first["result"], True)


async def test_a_completion_without_a_result_is_answered_as_ever(http: Http) -> None:
    claimed = (await http.claim("x"))["claim"]
    reply = await http.call("POST", f"{NS}/claims/{claimed}:complete")
    assert set(reply.json) == {"claim", "state", "settled", "taken_over", "lease_ms"}


@pytest.mark.parametrize(
    ("verb", "message", "status", "code"),
    [
        ("complete", {"result": base64.b64encode(bytes(257)).decode()}, 413, "TOO_LARGE"),
        ("complete", {"result": ""}, 400, "BAD_REQUEST"),
        ("complete", {"result": "no base64"}, 400, "BAD_REQUEST"),
        ("complete", {}, 400, "BAD_REQUEST"),
        ("complete", {"result": "QQ==", "note": 1}, 400, "BAD_REQUEST"),
        ("renew", {"result": "QQ=="}, 400, "BAD_REQUEST"),
        ("release", {"result": "QQ=="}, 400, "BAD_REQUEST"),
    ],
)
async def test_a_result_that_cannot_be_taken_is_refused_and_the_claim_stays_open(
    http: Http, verb: str, message: Any, status: int, code: str
) -> None:
    claimed = (await http.claim("x"))["claim"]
    before = http.position
    (await http.post_json(f"{NS}/claims/{claimed}:{verb}", message)).problem(status, code)
    assert http.position == before
    assert (await http.claim("x"))["verdicts"][0]["verdict"] == "BUSY"
