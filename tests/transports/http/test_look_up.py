"""`ids:lookup`: the state of many ids, in each encoding; it grants nothing, writes nothing, and counts no duplicate."""

from collections.abc import AsyncIterator
from typing import Any

import pyarrow as pa
import pytest

from oncegate.core.verdicts import BY_BYTE, Flag
from oncegate.engine.limits import Limits
from tests.support.http_app import ARROW, JSON, PACKED, Http, Reply, open_http, stream, token

NS = "/v1/namespaces/default"
LOOK_UP = f"{NS}/ids:lookup"
WRITTEN, HELD, NEW = "sixteen bytes a ", "sixteen bytes b ", "sixteen bytes c "
ASKED = [WRITTEN, HELD, NEW, WRITTEN]
TOLD = ["DUPLICATE", "BUSY", "FREE", "SAME"]
MEDIA = pytest.mark.parametrize("media", [JSON, PACKED, ARROW])


@pytest.fixture
async def http() -> AsyncIterator[Http]:
    async with open_http() as http:
        message = {"token": token(), "call": 0, "records": [{"id": WRITTEN}], "id_col": ["id"]}
        assert (await http.post_json(f"{NS}/topics/orders/records:produce", message)).status == 200
        claimed = {"token": token(), "call": 0, "ids": [HELD], "id_set": "orders"}
        assert (await http.post_json(f"{NS}/ids:claim", claimed)).status == 200
        yield http


async def look_up(http: Http, media: str, ids: list[str], query: str = "") -> Reply:
    if media == JSON:
        return await http.post_json(f"{LOOK_UP}{query}", {"ids": ids, "id_set": "orders"}, {"Accept": JSON})
    body = "".join(ids).encode() if media == PACKED else stream(pa.record_batch({"id": ids}))
    headers = {"Content-Type": media, "Accept": media, "Oncegate-Id-Set": "orders"}
    return await http.call("POST", f"{LOOK_UP}{query}", body, headers)


def verdicts_of(media: str, body: bytes) -> list[str]:
    if media == JSON:
        return [one["verdict"] for one in Reply(200, {}, body).json["verdicts"]]
    if media == ARROW:
        return [str(one) for one in pa.ipc.open_stream(body).read_all()["verdict"].to_pylist()]
    assert body[:20] == bytes(20), "no claim, no lease"
    count = int.from_bytes(body[20:24], "little")
    return [BY_BYTE[byte].verdict.name for byte in body[24 : 24 + count]]


async def counters(http: Http) -> Any:
    return (await http.get(NS)).json["counters"]


@MEDIA
async def test_known_held_and_free_ids_are_distinguished_in_every_encoding(http: Http, media: str) -> None:
    reply = await look_up(http, media, ASKED)
    assert (reply.status, reply.headers["content-type"]) == (200, media), reply.body
    assert verdicts_of(media, reply.body) == TOLD


@MEDIA
async def test_a_look_up_grants_nothing_writes_nothing_and_is_no_duplicate(http: Http, media: str) -> None:
    position, before = http.position, await counters(http)
    for _ in range(2):
        assert verdicts_of(media, (await look_up(http, media, ASKED)).body) == TOLD
    after = await counters(http)
    assert http.position == position
    assert after.pop("looked_up") == before.pop("looked_up") + 2 * len(ASKED)
    assert after == before
    claimed = {"token": token(), "call": 0, "ids": [NEW], "id_set": "orders"}
    assert (await http.post_json(f"{NS}/ids:claim", claimed)).json["verdicts"] == [{"verdict": "GRANTED"}]


async def test_a_known_id_has_the_offset_of_its_row(http: Http) -> None:
    found = (await look_up(http, JSON, ASKED, "?locate=true")).json["verdicts"]
    assert found[0]["place"] == {"topic": "orders", "partition": 0, "offset": 0}
    assert [sorted(one) for one in found[1:]] == [["lease_left_ms", "verdict"], ["verdict"], ["of_index", "verdict"]]


async def test_a_claim_with_an_expired_lease_is_distinguished_from_a_free_id() -> None:
    async with open_http(Limits(lease_ms_min=1)) as http:
        request = {"token": token(), "call": 0, "ids": [HELD], "lease_ms": 1, "id_set": "orders"}
        assert (await http.post_json(f"{NS}/ids:claim", request)).status == 200
        # BUSY until its millisecond is over, however slow the machine is.
        while (found := (await look_up(http, JSON, [HELD])).json["verdicts"])[0]["verdict"] == "BUSY":
            pass
        assert found == [{"verdict": "FREE", str(Flag.TAKEOVER.name).lower(): True}]


async def test_ids_are_looked_up_in_the_set_that_is_named(http: Http) -> None:
    assert (await http.post_json(LOOK_UP, {"ids": [WRITTEN]})).json == {"verdicts": [{"verdict": "FREE"}], "id_set": ""}


@MEDIA
async def test_more_ids_than_the_limit_are_refused(media: str) -> None:
    async with open_http(Limits(ids_per_request=3)) as http:
        (await look_up(http, media, ASKED)).problem(413, "TOO_LARGE")


async def test_fields_that_a_look_up_does_not_accept_are_refused(http: Http) -> None:
    (await http.post_json(LOOK_UP, {"ids": [WRITTEN], "token": token()})).problem(400, "BAD_REQUEST")
    (await http.post_raw(LOOK_UP, PACKED, WRITTEN.encode())).problem(400, "BAD_REQUEST")
    (await http.post_json(LOOK_UP, {"ids": [WRITTEN, None]})).problem(422, "NULL_ID")
