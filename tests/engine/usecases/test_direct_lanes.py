"""Direct writes at the engine: entered before they are answered, absent only with proof, then trimmed."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from oncegate.core.entries.kinds import NamespaceSet
from oncegate.core.errors import (
    BadRequest,
    DeadlinePassed,
    LedgerDamaged,
    LedgerFenced,
    LedgerFull,
    NotFound,
    OncegateError,
    TooLarge,
)
from oncegate.engine.usecases.direct import lanes
from oncegate.engine.usecases.direct.record import SPANS_MAX, decode_record
from tests.support.direct_records import LEDGER, DirectLanes, LedgersWithLanes, direct_lanes, record
from tests.support.memory_gateway import BATCH, rows_of, run_ready_tasks, serving
from tests.support.tree import ROOT


@pytest.fixture
async def lane() -> AsyncIterator[DirectLanes]:
    async with direct_lanes() as found:
        yield found


async def test_a_lane_is_permanent_and_names_how_it_is_written(lane: DirectLanes) -> None:
    opened = await lane.open()
    assert (opened.lane, opened.place.partition) == (1, 1)
    assert opened.place.transactional_id == "p.default/1/direct/1"
    assert lane.disk.kinds() in ([], [["Probe"]])
    assert ((await lane.open(producer="q")).lane, (await lane.open("u")).lane) == (2, 3)


async def test_committed_sequences_are_duplicates_and_the_rest_is_absent(lane: DirectLanes) -> None:
    lane.records.commit(1, (10, 14), (17, 17))
    assert await lane.ask(12, 20) == [[12, 14], [17, 17]]
    assert await lane.ask(10, 14) == [[10, 14]]


async def test_records_of_lanes_and_their_answers_are_counted(lane: DirectLanes) -> None:
    lane.records.commit(1, (10, 14), (17, 17))
    await lane.ask(12, 20)
    await lane.open(producer="q")
    assert lane.counted("lanes", "lane_rows", "lane_duplicates", "lane_doubles") == [2, 6, 4, 0]


async def test_a_duplicate_is_answered_once_its_entry_is_durable(lane: DirectLanes) -> None:
    lane.records.commit(1, (1, 5))
    lane.disk.hold()
    pending = await lane.served.begin(lane.ask(1, 5))
    assert not pending.done()
    assert lane.disk.kinds()[-1] == ["LaneWritten"]
    later = await lane.served.begin(lane.ask(2, 3))
    assert not later.done(), "an entry that is only in the index may be lost"
    await lane.disk.release()
    assert (await pending, await later) == ([[1, 5]], [[2, 3]])


async def test_sequences_known_as_written_need_no_reading_and_no_append(lane: DirectLanes) -> None:
    lane.records.commit(1, (1, 5))
    await lane.ask(1, 5)
    lane.disk.appends.clear()
    lane.records.reads.clear()
    assert await lane.ask(1, 5) == [[1, 5]]
    assert (lane.disk.appends, lane.records.reads) == ([], [])


async def test_an_absence_is_answered_after_an_append_that_began_after_the_reading(lane: DirectLanes) -> None:
    lane.records.gate.clear()
    pending = await lane.served.begin(lane.ask(1, 5))
    await lane.open(producer="q")
    appended = len(lane.disk.appends)
    assert appended, "an append that began before the reading proves nothing"
    lane.disk.hold()
    lane.records.gate.set()
    await run_ready_tasks()
    assert not pending.done()
    assert len(lane.disk.appends) == appended + 1
    await lane.disk.release()
    assert await pending == []


async def test_an_owner_that_was_followed_while_it_slept_denies_nothing(lane: DirectLanes) -> None:
    lane.disk.faults = ["fenced"]
    with pytest.raises(OncegateError) as refused:
        await lane.ask(1, 5)
    assert isinstance(refused.value, LedgerFenced)


async def test_an_owner_that_misses_what_its_successor_has_trimmed_is_not_damaged(lane: DirectLanes) -> None:
    lane.records.low[1] = 3
    lane.disk.faults = ["fenced"]
    with pytest.raises(LedgerFenced):
        await lane.ask(1, 5)


async def test_records_trimmed_by_another_are_damage(lane: DirectLanes) -> None:
    lane.records.low[1] = 3
    with pytest.raises(LedgerDamaged, match="are gone"):
        await lane.ask(1, 5)


async def test_an_open_transaction_holds_a_question_until_its_deadline(lane: DirectLanes) -> None:
    lane.records.gate.clear()
    pending = await lane.served.begin(lane.ask(1, 5, timeout_ms=2_000))
    lane.served.clock.advance(2_000)
    await run_ready_tasks()
    with pytest.raises(DeadlinePassed, match=r"p\.default\.direct, partition 1"):
        await pending
    lane.records.gate.set()
    assert await lane.ask(1, 5) == []


async def test_a_question_without_a_deadline_has_one(lane: DirectLanes) -> None:
    lane.records.gate.clear()
    pending = await lane.served.begin(lane.ask(1, 5))
    lane.served.clock.advance(lanes.ASK_MS)
    await run_ready_tasks()
    with pytest.raises(DeadlinePassed):
        await pending


async def test_a_partition_that_is_held_up_holds_no_other(lane: DirectLanes) -> None:
    await lane.open(producer="q")
    held, lane.records.gate = lane.records.gate, lane.records.gate
    held.clear()
    pending = await lane.served.begin(lane.ask(1, 5))
    lane.records.gate = type(held)()
    lane.records.gate.set()
    assert await lane.ask(1, 5, producer="q") == []
    assert not pending.done()
    held.set()
    assert await pending == []


async def test_all_who_ask_while_a_partition_is_read_share_the_next_reading(lane: DirectLanes) -> None:
    lane.records.gate.clear()
    asked = [await lane.served.begin(lane.ask(1, 5)) for _ in range(4)]
    lane.records.commit(1, (2, 2))
    lane.records.gate.set()
    assert [await one for one in asked][1:] == [[[2, 2]], [[2, 2]], [[2, 2]]]
    assert lane.records.reads == [(1, 0), (1, 0)]


async def test_records_undone_by_a_refused_append_are_read_again(lane: DirectLanes) -> None:
    """The original caller reads again too: its first read found the record, but the index has lost it meanwhile."""
    lane.records.commit(1, (1, 3))
    lane.disk.faults = ["full"]
    with pytest.raises(LedgerFull):
        await lane.ask(1, 5)
    lane.served.clock.advance(60_000)
    await run_ready_tasks()
    assert lane.records.reads == [(1, 0), (1, 0)]
    assert await lane.ask(1, 5) == [[1, 3]]
    assert lane.records.reads == [(1, 0)] * 3


async def test_a_successor_reads_what_its_predecessor_had_found_and_not_entered() -> None:
    ledgers = LedgersWithLanes()
    async with direct_lanes(ledgers) as first:
        first.records.commit(1, (1, 3))
        await first.ask(1, 3)
        first.records.commit(1, (4, 6))
        first.disk.faults = ["lost"]
        pending = await first.served.begin(first.ask(4, 6))
        with pytest.raises(OncegateError):
            await pending
    async with direct_lanes(ledgers) as second:
        assert await second.ask(1, 9) == [[1, 6]]
        assert second.records.reads[-1] == (1, 1)


async def test_lanes_outlive_a_restart_with_their_partition() -> None:
    ledgers = LedgersWithLanes()
    async with direct_lanes(ledgers) as first:
        await first.open(producer="q")
        first.records.commit(2, (7, 7))
        assert await first.ask(7, 7, producer="q") == [[7, 7]]
    async with direct_lanes(ledgers) as second:
        second.records.gate.clear()
        assert await second.ask(7, 7, producer="q") == [[7, 7]]
        assert (await second.open(producer="q")).place.partition == 0


FOREIGN = {
    "another ledger's": record(1, (1, 1), ledger=bytes(16)),
    "a lane that is not there": record(9, (1, 1)),
    "a lane of another partition": record(2, (1, 1)),
    "a later version": record(1, (1, 1), version=2),
    "cut": record(1, (1, 1))[:-1],
    "empty": b"",
    "without spans": record(1),
    "spans out of order": record(1, (5, 5), (1, 1)),
    "a span that ends before it begins": record(1, (5, 4)),
    "a sequence that has no successor": record(1, (2**64 - 1, 2**64 - 1)),
}


@pytest.mark.parametrize("name", FOREIGN)
async def test_a_record_that_is_no_lanes_holds_its_partition_and_is_named(lane: DirectLanes, name: str) -> None:
    await lane.open(producer="q")
    lane.records.commit(1, (1, 1))
    lane.records.logs[1].append(FOREIGN[name])
    with pytest.raises(LedgerDamaged, match="partition 1, offset 1"):
        await lane.ask(1, 5)
    assert await lane.ask(1, 1) == [[1, 1]], "rows before it are entered"
    assert await lane.ask(1, 5, producer="q") == []


async def test_sequences_written_twice_are_reported_and_logged(lane: DirectLanes) -> None:
    lane.records.commit(1, (1, 5))
    lane.records.commit(1, (5, 6))
    assert await lane.ask(1, 9) == [[1, 6]]
    ((_, said),) = [one for one in lane.served.events.seen if one[0] == "lane_written_twice"]
    assert (said["topic"], said["producer"], said["partition"], said["offset"]) == ("t", "p", 1, 1)
    assert lane.counted("lane_doubles", "lane_rows", "lane_duplicates") == [1, 6, 6]


async def test_sequences_written_again_later_are_logged(lane: DirectLanes) -> None:
    lane.records.commit(1, (1, 5))
    await lane.ask(1, 5)
    lane.records.commit(1, (0, 0), (5, 6))
    await lane.ask(0, 9)
    assert "lane_written_twice" in lane.served.events.names()


async def test_neighbours_are_not_written_twice(lane: DirectLanes) -> None:
    lane.records.commit(1, (1, 5))
    lane.records.commit(1, (0, 0), (6, 6))
    await lane.ask(0, 9)
    assert "lane_written_twice" not in lane.served.events.names()


async def test_acked_sequences_are_one_interval_and_its_gaps_are_reported_as_written(lane: DirectLanes) -> None:
    lane.records.commit(1, (1, 1), (3, 3), (5, 5), (9, 9))
    assert await lane.ask(10, 12, acked=7) == []
    assert lane.disk.kinds()[-1] == ["LaneWritten"], "the ack is durable before any answer"
    assert await lane.ask(0, 12) == [[0, 7], [9, 9]]
    assert "lane_written_twice" not in lane.served.events.names()
    lane.records.commit(1, (10, 12))
    assert await lane.ask(13, 14, acked=12) == []
    assert await lane.ask(0, 20) == [[0, 12]]


async def test_an_ack_that_comes_again_is_no_append(lane: DirectLanes) -> None:
    lane.records.commit(1, (1, 3))
    await lane.ask(2, 3, acked=1)
    lane.disk.appends.clear()
    assert await lane.ask(2, 3, acked=1) == [[2, 3]]
    assert await lane.ask(3, 3, acked=0) == [[3, 3]]
    assert lane.disk.appends == []


async def test_unwritten_sequences_are_not_acked(lane: DirectLanes) -> None:
    with pytest.raises(BadRequest, match="no sequence of producer p in topic t that is as high was written"):
        await lane.ask(5, 9, acked=4)
    lane.records.commit(1, (1, 3))
    with pytest.raises(BadRequest, match="acked is 4"):
        await lane.ask(5, 9, acked=4)
    with pytest.raises(BadRequest, match="it is below first, 3"):
        await lane.ask(3, 9, acked=3)
    assert await lane.ask(0, 9) == [[1, 3]]


async def test_a_record_that_was_not_read_yet_is_no_copy_of_what_is_acked(lane: DirectLanes) -> None:
    lane.records.commit(1, (10, 14))
    await lane.ask(10, 14)
    lane.records.commit(1, (3, 5))
    assert await lane.ask(15, 15, acked=9) == []
    assert await lane.ask(0, 20) == [[0, 14]]
    assert "lane_written_twice" not in lane.served.events.names()


async def test_an_ack_refused_by_the_ledger_is_undone_and_reported(lane: DirectLanes) -> None:
    lane.records.commit(1, (1, 1), (3, 3))
    await lane.ask(1, 3)
    lane.disk.faults = ["full"]
    with pytest.raises(LedgerFull):
        await lane.ask(4, 4, acked=3)
    known = lane.served.shard.journal.index.lanes.get("t", "p")
    assert known is not None
    assert known.within(0, 3).tolist() == [[1, 1], [3, 3]]


async def test_a_lane_with_too_many_gaps_continues_once_they_are_acked() -> None:
    async with direct_lanes(intervals=SPANS_MAX + 2) as lane:
        lane.records.commit(1, (1, 1), (3, 3), (5, 5))
        await lane.ask(1, 5)
        with pytest.raises(TooLarge, match="Ask with `acked`"):
            await lane.ask(6, 6)
        assert await lane.ask(6, 6, acked=5) == []
        assert await lane.ask(6, 6) == []


async def test_a_topic_is_written_one_way(lane: DirectLanes) -> None:
    with pytest.raises(BadRequest, match="written one way"):
        await lane.served.produce(rows_of(1), topic="t")
    with pytest.raises(BadRequest, match="written one way"):
        await lane.served.stage(rows_of(1), name=type(BATCH)("app", "1", "t"))
    await lane.served.produce(rows_of(1), topic="other")
    with pytest.raises(BadRequest, match="written one way"):
        await lane.open("other")


async def test_a_namespace_that_promises_headers_has_no_lanes() -> None:
    ledgers = LedgersWithLanes()
    async with serving(ledgers) as served:
        served.shard.journal.index.settings.in_force = NamespaceSet(0, 1, 0, 1)
        with pytest.raises(BadRequest, match="record_headers"):
            await served.shard.direct.open("t", "p", served.deadline())


async def test_questions_that_cannot_be_are_refused(lane: DirectLanes) -> None:
    with pytest.raises(NotFound, match="open it first"):
        await lane.ask(1, 5, producer="nobody")
    for first, last in ((5, 4), (-1, 4), (0, 2**64 - 1)):
        with pytest.raises(BadRequest):
            await lane.ask(first, last)


async def test_lanes_and_their_intervals_are_bounded() -> None:
    async with direct_lanes(producers=1, intervals=SPANS_MAX) as lane:
        with pytest.raises(TooLarge, match="1 lanes"):
            await lane.open(producer="q")
        lane.records.commit(1, (1, 1))
        assert await lane.ask(1, 1) == [[1, 1]]
        with pytest.raises(TooLarge, match="1 intervals"):
            await lane.ask(2, 2)


async def test_where_the_ledger_has_no_place_for_lanes_they_are_refused() -> None:
    async with serving() as served:
        with pytest.raises(NotFound, match="kafka://"):
            await served.shard.direct.open("t", "p", served.deadline())


async def test_a_reading_refused_by_brokers_is_reported_and_repeated(lane: DirectLanes) -> None:
    lane.records.full = True
    with pytest.raises(LedgerFull):
        await lane.ask(1, 5)
    assert await lane.ask(1, 5) == []


@pytest.mark.parametrize("golden", json.loads((ROOT / "tests/golden/kafka/lane_records.json").read_text()))
def test_a_record_is_read_as_clients_write_it(golden: dict[str, Any]) -> None:
    found = decode_record(bytes.fromhex(golden["record"]))
    assert found is not None
    assert (found.ledger.hex(), found.lane, found.spans.tolist()) == (golden["ledger"], golden["lane"], golden["spans"])


def test_a_record_is_read_as_it_was_written() -> None:
    found = decode_record(record(7, (1, 2), (2**63, 2**64 - 2)))
    assert found is not None
    assert (found.ledger, found.lane, found.spans.tolist()) == (LEDGER, 7, [[1, 2], [2**63, 2**64 - 2]])
