"""Producers and drivers over HTTP: registered, claimed in order, settled, acked, refused."""

import struct
from typing import Any

import pyarrow as pa
import pytest

from oncegate.engine.limits import Limits
from tests.support.http_app import ARROW, JSON, PACKED, open_http, stream, token
from tests.support.http_lanes import LANE, NS, Writer
from tests.support.packed import read_claim_packed

OWN_DUPLICATE, GRANTED = 0x22, 0x01


async def test_a_lane_is_claimed_written_completed_and_then_known() -> None:
    async with open_http() as http:
        writer = Writer(http)
        nothing_yet = dict.fromkeys(("watermark", "claimed_to", "resume_after"))
        first = {"producer": "events-3", "producer_id": 1, "epoch": 1, "lease_ms": 30_000, **nothing_yet}
        assert await writer.register() == {**first, "done": [], "truncated": False}
        assert await writer.claim(1, 2, 5) == ["GRANTED"] * 3
        done = await writer.settle("complete")
        assert done.json == {"producer": "events-3", "call": 0, "state": "DONE", "settled": 3, "lease_ms": 0}
        assert await writer.claim(5, 6, prev_sequence=2) == ["DUPLICATE", "GRANTED"]
        assert (await writer.close()).json == {"producer": "events-3", "epoch": 1}
        assert "oncegate-ledger" in done.headers


async def test_the_next_attempt_learns_what_to_drop_and_where_to_continue() -> None:
    async with open_http() as http:
        first, second = Writer(http), Writer(http)
        await first.register()
        await first.claim(1, 2)
        await first.settle("complete")
        await first.claim(3)
        await first.close()
        standing = await second.register()
        told = (standing["epoch"], standing["claimed_to"], standing["resume_after"], standing["done"])
        assert told == (2, 3, 2, [[1, 2]])
        reply = await second.ask(first=2, last=4)
        assert reply.json["verdicts"] == [
            {"verdict": "DUPLICATE"},
            {"verdict": "GRANTED", "takeover": True},
            {"verdict": "GRANTED"},
        ]
        late = (await first.settle("complete")).problem(409, "FENCED")
        assert (late["action"], late["effect"]) == ("stop", "none")


async def test_a_live_lease_is_respected_until_it_is_closed() -> None:
    async with open_http() as http:
        first, second = Writer(http), Writer(http)
        await first.register(lease_ms=60_000)
        body = {"token": second.token, "driver": "load"}
        reply = await http.post_json(f"{LANE}:register", body)
        refused = reply.problem(409, "PRODUCER_BUSY")
        assert refused["action"] == "retry"
        assert refused["retry_after_ms"] == refused["lease_left_ms"]
        assert int(reply.headers["retry-after"]) == -(-refused["retry_after_ms"] // 1_000)
        assert 30_000 < refused["lease_left_ms"] <= 60_000
        await first.close()
        assert (await second.register())["epoch"] == 2


async def test_registering_again_with_the_same_token_is_the_same_epoch() -> None:
    async with open_http() as http:
        writer = Writer(http)
        assert (await writer.register())["epoch"] == (await writer.register())["epoch"] == 1


async def test_the_three_encodings_answer_the_same_for_the_same_sequences() -> None:
    async with open_http() as http:
        told = []
        for n, media in enumerate((JSON, PACKED, ARROW)):
            writer = Writer(http, f"{NS}/producers/lane-{n}")
            await writer.register()
            await writer.claim(1, 2)
            await writer.settle("complete")
            writer.call += 1
            told.append(await through(writer, media, [2, 3]))
        assert told[0] == told[1] == told[2] == [OWN_DUPLICATE, GRANTED]


async def through(writer: Writer, media: str, sequences: list[int]) -> list[int]:
    """Claims sequences in one encoding and returns the bytes of the verdicts."""
    if media == JSON:
        body = writer.named(sequences=sequences, prev_sequence=1)
        reply = await writer.http.post_json(f"{writer.lane}:claim", body, {"Accept": PACKED})
        return [int(byte) for byte in read_claim_packed(reply.body).verdicts]
    packed = struct.pack(f"<{len(sequences)}Q", *sequences)
    body = packed if media == PACKED else stream(pa.record_batch({"offset": pa.array(sequences, pa.int64())}))
    headers = {"Oncegate-Token": writer.token, "Oncegate-Call": str(writer.call), "Oncegate-Epoch": str(writer.epoch)}
    headers |= {"Oncegate-Prev-Sequence": "1", "Oncegate-Lease-Ms": "5000", "Accept": PACKED}
    reply = await writer.http.post_raw(f"{writer.lane}:claim", media, body, headers)
    assert reply.status == 200, reply.body
    answer = read_claim_packed(reply.body)
    assert (answer.claim, answer.lease_ms) == (None, 5_000)
    return [int(byte) for byte in answer.verdicts]


async def test_skipped_sequences_are_a_gap_and_late_ones_are_out_of_order() -> None:
    async with open_http() as http:
        writer = Writer(http)
        await writer.register()
        gap = (await writer.ask(sequences=[5], prev_sequence=4)).problem(409, "GAP")
        assert (gap["action"], gap["effect"]) == ("stop", "none")
        await writer.claim(5)
        late = (await writer.ask(sequences=[4, 6])).problem(409, "OUT_OF_ORDER")
        assert late["action"] == "stop"
        assert "id_col" in late["detail"]
        assert "batches:stage" in late["detail"]
        assert await writer.claim(6, prev_sequence=5) == ["GRANTED"]


async def test_a_producer_is_explained() -> None:
    async with open_http() as http:
        (await http.get(LANE)).problem(404, "NOT_FOUND")
        writer = Writer(http)
        await writer.register()
        await writer.claim(1, 2)
        await writer.settle("complete")
        await writer.claim(3)
        known = (await http.get(LANE)).json
        assert 0 < known.pop("lease_left_ms") <= 30_000
        who = {"producer": "events-3", "producer_id": 1, "driver": "load", "epoch": 1, "token": writer.token}
        where = {"watermark": None, "claimed_to": 3, "resume_after": 2, "done": [[1, 2]], "open": [[3, 3]]}
        assert known == {**who, "lease_ms": 30_000, **where, "next": None}


async def test_a_producers_intervals_have_pages() -> None:
    async with open_http() as http:
        writer = Writer(http)
        await writer.register()
        await writer.claim(0, 2, 4)
        await writer.settle("complete")
        await writer.claim(6, 8)
        pages = [(await http.get(f"{LANE}?limit=2{after}")).json for after in ("", "&after=2", "&after=8")]
        assert [page["done"] for page in pages] == [[[0, 0], [2, 2]], [[4, 4]], []]
        assert [page["open"] for page in pages] == [[], [[6, 6], [8, 8]], []]
        assert [page["next"] for page in pages] == [2, None, None]
        for wrong in ("limit=0", "limit=1001", "after=-1", "after=x", "after="):
            (await http.get(f"{LANE}?{wrong}")).problem(400, "BAD_REQUEST")


async def test_a_name_may_hold_anything_that_text_holds() -> None:
    async with open_http() as http:
        writer = Writer(http, f"{NS}/producers/data/day=1/part-0.parquet:claim", "Müller")
        await writer.register()
        assert await writer.claim(0) == ["GRANTED"]
        assert (await http.get(writer.lane)).json["producer"] == "data/day=1/part-0.parquet:claim"


async def test_a_producer_of_another_driver_is_refused() -> None:
    async with open_http() as http:
        await Writer(http).register()
        body = {"token": token(), "driver": "other"}
        (await http.post_json(f"{LANE}:register", body)).problem(409, "OTHER_DRIVER")


LONG = "x" * 513
BAD: list[tuple[str, dict[str, Any], int, str]] = [
    ("register", {"driver": ""}, 400, "driver"),
    ("register", {"driver": LONG}, 413, "512"),
    ("register", {"driver": "load", "lease_ms": 1}, 400, "lease"),
    ("claim", {}, 400, "either sequences, or first and last"),
    ("claim", {"first": 1}, 400, "either"),
    ("claim", {"sequences": [1], "first": 1, "last": 2}, 400, "either"),
    ("claim", {"first": 2, "last": 1}, 400, "comes after"),
    ("claim", {"first": 0, "last": 2**64 - 2}, 413, "at most 100000"),
    ("claim", {"sequences": [2, 2]}, 400, "greater than the one before"),
    ("claim", {"sequences": [-1]}, 400, ">= 0"),
    ("claim", {"sequences": [2**64]}, 400, str(2**64 - 2)),
    ("claim", {"sequences": [2**64 - 1]}, 400, str(2**64 - 2)),
    ("claim", {"sequences": [7], "prev_sequence": 7}, 400, "prev_sequence"),
    ("claim", {"sequences": [7], "prev_sequence": 2**64}, 400, "prev_sequence"),
    ("claim", {"sequences": ["7"]}, 400, "Expected `int`"),
    ("claim", {"sequences": [7], "epoch": 2**64}, 400, "epoch"),
]


@pytest.mark.parametrize(("verb", "more", "status", "told"), BAD, ids=[f"{v}-{n}" for n, (v, *_) in enumerate(BAD)])
async def test_bad_input_is_refused_before_any_effect(verb: str, more: dict[str, Any], status: int, told: str) -> None:
    async with open_http() as http:
        writer = Writer(http)
        if verb == "claim":
            await writer.register()
        before, asked = http.position, writer.named(call=0) if verb == "claim" else {"token": writer.token}
        reply = await http.post_json(f"{LANE}:{verb}", {**asked, **more})
        refused = reply.problem(status, "TOO_LARGE" if status == 413 else "BAD_REQUEST")
        assert told in refused["detail"]
        assert (refused["action"], refused["effect"], http.position) == ("fix", "none", before)


@pytest.mark.parametrize(
    ("batch", "told"),
    [
        (pa.record_batch({"a": [1], "b": [2]}), "one column"),
        (pa.record_batch({"a": ["1"]}), "type string"),
        (pa.record_batch({"a": pa.array([1, None])}), "no sequence"),
        (pa.record_batch({"a": pa.array([-1])}), "whole numbers from 0"),
    ],
    ids=["columns", "text", "null", "negative"],
)
async def test_a_column_that_is_no_sequence_is_refused(batch: Any, told: str) -> None:
    async with open_http() as http:
        writer = Writer(http)
        await writer.register()
        headers = {"Oncegate-Token": writer.token, "Oncegate-Epoch": "1"}
        reply = await http.post_raw(f"{LANE}:claim", ARROW, stream(batch), headers)
        assert told in reply.problem(400, "BAD_REQUEST")["detail"]


async def test_packed_sequences_need_their_headers_and_whole_numbers() -> None:
    async with open_http() as http:
        missing = await http.post_raw(f"{LANE}:claim", PACKED, bytes(8))
        assert "Oncegate-Epoch" in missing.problem(400, "BAD_REQUEST")["detail"]
        odd = await http.post_raw(f"{LANE}:claim", PACKED, bytes(9), {"Oncegate-Epoch": "1"})
        assert "8 bytes a sequence" in odd.problem(400, "BAD_REQUEST")["detail"]
        (await http.post_raw(f"{LANE}:claim", PACKED, bytes(8), {"Oncegate-Epoch": "1"})).problem(
            404, "UNKNOWN_PRODUCER"
        )


async def test_more_sequences_than_a_request_may_have_are_refused() -> None:
    async with open_http(Limits(ids_per_request=3)) as http:
        writer = Writer(http)
        await writer.register()
        (await writer.ask(sequences=[1, 2, 3, 4])).problem(413, "TOO_LARGE")
        (await writer.ask(first=1, last=4)).problem(413, "TOO_LARGE")
        assert (await writer.ask(first=1, last=3)).status == 200


ROWS = pa.record_batch({"at": pa.array([4, 5, 9], pa.int64()), "n": [1, 2, 3]})


def produce(writer: Writer, topic: str, **more: object) -> str:
    query = {"producer": "events-3", "epoch": writer.epoch, "sequence_col": "at", **more}
    return f"{NS}/topics/{topic}/records:produce?" + "&".join(f"{name}={value}" for name, value in query.items())


def raw(writer: Writer, call: int) -> dict[str, str]:
    return {"Oncegate-Token": writer.token, "Oncegate-Call": str(call), "Accept": JSON}


async def test_sequences_that_are_written_elsewhere_still_make_the_topic_that_they_are_sent_to() -> None:
    async with open_http() as http:
        writer = Writer(http)
        await writer.register()
        for call, (topic, rows) in enumerate([("t", 3), ("u", 0), ("u", 0)]):
            reply = await http.post_raw(produce(writer, topic), ARROW, stream(ROWS), raw(writer, call))
            assert reply.json["rows"] == rows
        assert (await http.get(f"{NS}/topics/u")).json["schema"] == "at int64, n int64"
        assert (await http.get(f"{NS}/topics/u/partitions/0/records", Accept=JSON)).json["records"] == []


async def test_rows_with_sequences_are_written_once_and_done_at_once() -> None:
    async with open_http() as http:
        writer = Writer(http)
        await writer.register()
        first = await http.post_raw(produce(writer, "t"), ARROW, stream(ROWS), raw(writer, 0))
        assert first.json["rows"] == 3
        more = pa.record_batch({"at": pa.array([9, 10], pa.int64()), "n": [3, 4]})
        again = await http.post_raw(produce(writer, "t", prev_sequence=5), ARROW, stream(more), raw(writer, 1))
        assert again.json == {
            "rows": 1,
            "offsets": [{"partition": 0, "first_offset": 3, "rows": 1}],
            "verdicts": [{"verdict": "DUPLICATE", "own": True}, {"verdict": "GRANTED"}],
        }
        body = writer.named(call=2, records=[{"at": 10, "n": 4}, {"at": 12, "n": 5}])
        body |= {"producer": "events-3", "sequence_col": "at", "prev_sequence": 9}
        told = await http.post_json(f"{NS}/topics/t/records:produce", body)
        assert [one["verdict"] for one in told.json["verdicts"]] == ["DUPLICATE", "GRANTED"]
        assert (await http.get(LANE)).json["done"] == [[4, 5], [9, 10], [12, 12]]
        assert "plain_write" not in http.log.getvalue()


async def test_a_gap_is_reported_in_every_encoding() -> None:
    async with open_http() as http:
        writer = Writer(http)
        await writer.register()
        await writer.claim(1)
        headers = {**raw(writer, 1), "Oncegate-Epoch": "1", "Oncegate-Prev-Sequence": "3"}
        for reply in (
            await http.post_json(f"{LANE}:claim", writer.named(call=1, sequences=[4], prev_sequence=3)),
            await http.post_raw(f"{LANE}:claim", PACKED, struct.pack("<Q", 4), headers),
            await http.post_raw(produce(writer, "t", prev_sequence=3), ARROW, stream(ROWS), raw(writer, 1)),
        ):
            assert reply.problem(409, "GAP")["claimed_to"] == 1


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"sequence_col": "nowhere"}, "the rows have at, n"),
        ({"sequence_col": ""}, "the rows have at, n"),
        ({"id_col": "n"}, "not by both"),
        ({"prev_sequence": 2**64}, "prev_sequence"),
        ({"epoch": -1}, "epoch"),
    ],
)
async def test_rows_with_an_unrequested_location_are_refused(more: dict[str, object], told: str) -> None:
    async with open_http() as http:
        writer = Writer(http)
        await writer.register()
        before = http.position
        reply = await http.post_raw(produce(writer, "t", **more), ARROW, stream(ROWS), raw(writer, 0))
        assert told in reply.problem(400, "BAD_REQUEST")["detail"]
        half = f"{NS}/topics/t/records:produce?producer=events-3"
        reply = await http.post_raw(half, ARROW, stream(ROWS), raw(writer, 0))
        assert "go together" in reply.problem(400, "BAD_REQUEST")["detail"]
        assert http.position == before


async def test_a_registration_without_gaps_gets_them_reported_without_naming_the_previous_sequence() -> None:
    async with open_http() as http:
        writer = Writer(http)
        await writer.register(gaps="refuse")
        assert await writer.claim(1, 2) == ["GRANTED"] * 2
        gap = (await writer.ask(sequences=[4])).problem(409, "GAP")
        assert (gap["prev_sequence"], gap["claimed_to"]) == (None, 2)
        assert await writer.claim(3) == ["GRANTED"]
        request = {"token": writer.token, "driver": "load", "gaps": "perhaps"}
        (await http.post_json(f"{LANE}:register", request)).problem(400, "BAD_REQUEST")
