"""A repeat by sequence gets the offsets of its first attempt, on every ledger; unknown ones are absent."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from oncegate.core.claims import Verb
from oncegate.engine.commit.places import Places
from oncegate.engine.requests import ProduceRequest, SequenceRequest, TopicRequest
from oncegate.engine.usecases import producers
from tests.support.memory_gateway import GatedLedgers, id16, rows_of, verdicts_of, wait_until
from tests.support.producing_lanes import Lanes, lanes
from tests.support.sending import SendingLedgers

Ledgers = Callable[[], GatedLedgers]
EVERYWHERE = pytest.mark.parametrize("kind", [GatedLedgers, SendingLedgers])


def ranges(told: Any) -> list[tuple[str, int, int, int]]:
    return [tuple(one) for one in told]


async def keyed(lane: Lanes, call: int, *numbers: int) -> Any:
    """Produces rows whose keys spread them over the partitions."""
    rows = rows_of(*numbers)
    keys = lane.namespace.row_fingerprints.keys_of(rows.batches[0], ["n"])
    sequenced = SequenceRequest("p", 1, id16(1), call, np.array(numbers, np.uint64))
    ask = ProduceRequest("topic", id16(1), call, rows, keys=keys, sequenced=sequenced)
    return await lane.namespace.records.produce(ask, lane.served.deadline())


@EVERYWHERE
async def test_a_repeat_gets_the_first_answer_s_offsets(kind: Ledgers) -> None:
    ledgers = kind()
    async with lanes(ledgers) as lane:
        first = await lane.produce(0, [1, 2, 3, 4])
        await lane.produce(1, [5])
        again = await lane.produce(0, [1, 2, 3, 4])
    async with lanes(ledgers) as lane:
        later = await lane.produce(0, [1, 2, 3, 4])
    assert first.rows == sum(one.rows for one in first.spans) == 4
    assert first.before == ()
    for repeat in (again, later):
        assert (verdicts_of(repeat), repeat.rows, repeat.spans) == (["DUPLICATE+OWN"] * 4, 0, ())
        assert ranges(repeat.before) == ranges(first.spans)


async def test_rows_in_several_partitions_have_the_offsets_of_each() -> None:
    ledgers = GatedLedgers()
    async with lanes(ledgers) as lane:
        await lane.namespace.topics.create(TopicRequest("topic", 4), lane.served.deadline())
        await keyed(lane, 0, *range(100, 120))
        first = await keyed(lane, 1, *range(200, 220))
        assert len(first.spans) == 4
        again = await keyed(lane, 1, *range(200, 220))
    async with lanes(ledgers) as lane:
        later = await keyed(lane, 1, *range(200, 220))
    assert ranges(again.before) == ranges(later.before) == ranges(first.spans)


@EVERYWHERE
@pytest.mark.parametrize("restarted", [False, True])
async def test_rows_of_another_call_or_epoch_are_not_reported_as_this_one_s(kind: Ledgers, restarted: bool) -> None:
    ledgers = kind()
    async with lanes(ledgers) as lane:
        await lane.produce(0, [1, 2])
        mixed = await lane.produce(1, [2, 3])
        assert (verdicts_of(mixed), mixed.before) == (["DUPLICATE+OWN", "GRANTED"], ())
        again = await lane.produce(1, [2, 3])
        assert ranges(again.before) == ranges(mixed.spans)
        if not restarted:
            return
    async with lanes(ledgers) as lane:
        assert ranges((await lane.produce(1, [2, 3])).before) == ranges(mixed.spans)
        lane.served.clock.advance(10**6)
        await lane.register(token=2)
        newer = await lane.produce(0, [1, 2], token=2, epoch=2)
        assert (verdicts_of(newer), newer.before) == (["DUPLICATE"] * 2, ())


@EVERYWHERE
@pytest.mark.parametrize("restarted", [False, True])
async def test_a_call_claimed_and_completed_elsewhere_returns_no_rows(kind: Ledgers, restarted: bool) -> None:
    ledgers = kind()
    async with lanes(ledgers) as lane:
        await lane.produce(0, [1, 2])
        await lane.claim(1, [3])
        await lane.settle(Verb.COMPLETE, 1)
        if not restarted:
            assert (await lane.produce(2, [3])).before == ()
            return
    async with lanes(ledgers) as lane:
        for call, sequences in ((2, [3]), (2, [3])):
            assert (await lane.produce(call, sequences)).before == ()


@EVERYWHERE
async def test_a_compaction_makes_them_unknown(kind: Ledgers) -> None:
    ledgers = kind()
    async with lanes(ledgers, collect_bytes=1) as lane:
        await lane.produce(0, [1, 2])
        lane.shard.scheduler.compact()
        await wait_until(lambda: not lane.shard.snapshotter.compacting)
        assert "compaction" in lane.served.events.names()
    async with lanes(ledgers) as lane:
        again = await lane.produce(0, [1, 2])
        assert (verdicts_of(again), again.before) == (["DUPLICATE+OWN"] * 2, ())


async def test_an_entry_of_a_previous_version_has_no_row_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producers, "replace", lambda entry, **_: entry)
    ledgers = GatedLedgers()
    async with lanes(ledgers) as lane:
        await lane.produce(0, [1, 2])
    async with lanes(ledgers) as lane:
        again = await lane.produce(0, [1, 2])
        assert (verdicts_of(again), again.before) == (["DUPLICATE+OWN"] * 2, ())


async def test_the_end_of_another_call_is_not_taken_for_this_one_s() -> None:
    async with lanes() as lane:
        await lane.produce(0, [1, 2])
        completed = lane.shard.group_commit.mark.position
        journal = lane.shard.journal
        places = Places(journal.group_commit._ledger, lane.shard.marks)
        for call, rows in (((1, 1, 0), 2), ((2, 1, 0), 0), ((1, 2, 0), 0), ((1, 1, 1), 0)):
            found = await places.of_call(call, completed, lane.served.deadline())
            assert sum(one.rows for one in found) == rows
