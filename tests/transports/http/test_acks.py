"""Acks over HTTP: only by the driver, part by part; ids of an acked batch."""

import pyarrow as pa
import pytest

from tests.support.http_app import ARROW, JSON, PACKED, open_http, stream, token
from tests.support.http_lanes import LANE, LOAD, NS, Writer, ack, driver


async def test_only_the_driver_acks_and_then_all_below_is_stale_for_ever() -> None:
    async with open_http() as http:
        writer, owner = Writer(http), token()
        epoch = (await driver(http, owner))["epoch"]
        await writer.register()
        await writer.claim(1, 2, 3)
        refused = (await ack(http, {"events-3": 3, "nobody": 1}, owner, epoch)).json["refused"]
        assert "were claimed and are not done" in refused[0].pop("detail")
        assert "there is no producer nobody" in refused[1].pop("detail")
        assert refused == [
            {"code": "NOT_DONE", "action": "stop", "producer": "events-3", "not_done": [[1, 3]]},
            {"code": "UNKNOWN_PRODUCER", "action": "fix", "producer": "nobody"},
        ]
        await writer.settle("complete")
        executors = (await ack(http, {"events-3": 3}, writer.token, epoch)).problem(403, "NOT_DRIVER")
        assert executors["action"] == "stop"
        assert (await ack(http, {"events-3": 9}, owner, epoch, batch=4)).json == {
            "driver": "load",
            "watermarks": [{"producer": "events-3", "watermark": 3}],
            "batch": 4,
            "refused": [],
        }
        older = (await ack(http, {}, owner, epoch, batch=3)).problem(409, "OLDER_BATCH")
        assert (older["action"], older["effect"], older["batch"]) == ("stop", "none", 4)
        assert await writer.claim(2, 3, 4) == ["STALE", "STALE", "GRANTED"]
        assert (await driver(http, owner)) == {"driver": "load", "epoch": epoch, "batch": 4}


async def test_an_older_driver_is_fenced_at_once_and_a_stranger_has_to_register() -> None:
    async with open_http() as http:
        older, newer = token(), token()
        epoch = (await driver(http, older))["epoch"]
        assert (await driver(http, newer))["epoch"] == epoch + 1
        (await ack(http, {}, older, epoch, batch=1)).problem(409, "FENCED")
        (await ack(http, {}, newer, epoch + 7, batch=1)).problem(404, "UNKNOWN_DRIVER")
        (await http.post_json(f"{LOAD}:register", {"token": older})).problem(409, "FENCED")


async def test_ids_of_a_batch_are_stale_once_it_is_acked_in_every_encoding() -> None:
    async with open_http() as http:
        owner = token()
        epoch = (await driver(http, owner))["epoch"]
        request = {"token": token(), "call": 0, "ids": ["a"], "driver": "load", "batch": 4}
        claimed = (await http.post_json(f"{NS}/ids:claim", request)).json["claim"]
        (held,) = (await ack(http, {}, owner, epoch, batch=4)).json["refused"]
        assert "open claims of batch 4 of driver load hold 1 ids" in held.pop("detail")
        assert held == {"code": "NOT_DONE", "action": "stop", "batch": 4, "open_ids": 1, "claims": [claimed]}
        await http.call("POST", f"{NS}/claims/{claimed}:complete")
        acked = (await ack(http, {}, owner, epoch, batch=4)).json
        assert (acked["batch"], acked["refused"]) == (4, [])
        scope = {"Oncegate-Driver": "load", "Oncegate-Batch": "4", "Accept": JSON}
        rows = pa.record_batch({"id": ["a"]})
        for reply in (
            await http.post_json(f"{NS}/ids:claim", {**request, "token": token()}),
            await http.post_raw(f"{NS}/ids:claim", PACKED, bytes(16), scope),
            await http.post_json(f"{NS}/ids:take", {"owner": "o", "ids": ["a"], "driver": "load", "batch": 3}),
            await http.post_raw(f"{NS}/ids:take", ARROW, stream(rows), {**scope, "Oncegate-Owner": "o"}),
            await http.post_raw(f"{NS}/topics/t/records:produce?id_col=id", ARROW, stream(rows), scope),
        ):
            assert reply.json["verdicts"] == [{"verdict": "STALE"}]
        later = await http.post_json(f"{NS}/ids:claim", {**request, "token": token(), "batch": 5})
        assert later.json["verdicts"] == [{"verdict": "GRANTED"}]


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"driver": "load"}, "go together"),
        ({"batch": 1}, "go together"),
        ({"driver": "load", "batch": -1}, "batch"),
    ],
)
async def test_half_a_batch_is_refused(more: dict[str, object], told: str) -> None:
    async with open_http() as http:
        body = {"token": token(), "call": 0, "ids": ["a"], **more}
        reply = await http.post_json(f"{NS}/ids:claim", body)
        assert told in reply.problem(400, "BAD_REQUEST")["detail"]
        headers = {f"Oncegate-{name.title()}": str(value) for name, value in more.items()}
        reply = await http.post_raw(f"{NS}/ids:claim", PACKED, bytes(16), headers)
        assert told.title() in reply.problem(400, "BAD_REQUEST")["detail"].title()


async def test_leftovers_are_cleared_with_a_name_and_a_reason() -> None:
    said = {"who": "ada", "why": "looked"}
    async with open_http() as http:
        writer = Writer(http)
        await writer.register(lease_ms=1_000)
        await writer.claim(1, 2, 3)
        live = (await http.post_json(f"{LANE}:resolve", {"outcome": "done", **said})).problem(409, "LEASE_LIVE")
        assert live["action"] == "retry"
        assert 0 < live["lease_left_ms"] <= 1_000
        await writer.close()
        reply = await http.post_json(f"{LANE}:resolve", {"outcome": "not_done", "first": 1, "last": 3, **said})
        assert reply.json == {"outcome": "not_done", "resolved": 3}
        claimed = await http.post_json(f"{NS}/ids:claim", {"token": token(), "call": 0, "ids": ["a"]})
        path = f"{NS}/claims/{claimed.json['claim']}"
        (await http.post_json(f"{path}:resolve", {"outcome": "done", **said})).problem(409, "LEASE_LIVE")
        await http.call("POST", f"{path}:complete")
        assert (await http.post_json(f"{path}:resolve", {"outcome": "done", **said})).json["resolved"] == 0
        for asked in ({"outcome": "perhaps", **said}, {"outcome": "done", "who": "ada"}):
            for place in (path, LANE):
                (await http.post_json(f"{place}:resolve", asked)).problem(400, "BAD_REQUEST")
