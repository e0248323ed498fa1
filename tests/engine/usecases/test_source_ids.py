"""The source of a producer's sequences: the first named one is permanent, and a different one is refused."""

from collections.abc import AsyncIterator

import pytest

from oncegate.core.entries.producers import SourceNamed
from oncegate.core.errors import BadRequest, LedgerFull, SourceReplaced, TooLarge
from oncegate.core.producers import SourceKnown
from oncegate.index.shard import ShardIndex
from tests.support.direct_records import DirectLanes, direct_lanes
from tests.support.memory_gateway import GatedLedgers
from tests.support.producing_lanes import lanes as producing

FIRST, SECOND = "AbCdEfGhIjKlMnOpQrStUv", "ZzCdEfGhIjKlMnOpQrStUv"


@pytest.fixture
async def lane() -> AsyncIterator[DirectLanes]:
    async with direct_lanes() as found:
        yield found


async def test_a_source_that_was_made_again_is_refused_and_nothing_changes() -> None:
    async with producing() as lanes:
        epoch = (await lanes.register(source_id=FIRST)).epoch
        await lanes.claim(0, [0, 1, 2])
        await lanes.complete(0)
        with pytest.raises(SourceReplaced, match=f"of source {FIRST}, .* of source {SECOND}.*Two ways on") as refused:
            await lanes.register(token=2, source_id=SECOND)
        assert refused.value.extra == {"producer": "p"}
        explained = await lanes.shard.producers.explain("p")
        assert (explained.epoch, explained.claimed_to) == (epoch, 2)
        assert (await lanes.register(source_id=FIRST)).epoch == epoch
        assert (await lanes.register(producer="again-p", token=2, source_id=SECOND)).claimed_to is None


async def test_a_producer_from_before_source_names_continues_and_gets_its_name() -> None:
    async with producing() as lanes:
        await lanes.register()
        await lanes.claim(0, [0, 1, 2])
        assert (await lanes.register(source_id=FIRST)).claimed_to == 2
        with pytest.raises(SourceReplaced):
            await lanes.register(source_id=SECOND)
        assert (await lanes.register()).claimed_to == 2, "who names none is not compared"


async def test_a_source_is_known_after_a_restart() -> None:
    ledgers = GatedLedgers()
    async with producing(ledgers) as lanes:
        await lanes.register(source_id=FIRST)
    async with producing(ledgers) as lanes:
        with pytest.raises(SourceReplaced):
            await lanes.register(source_id=SECOND)


def test_a_source_is_known_after_a_compaction_and_one_that_was_refused_is_not() -> None:
    index, again = ShardIndex(), ShardIndex()
    undo, _ = index.apply(1, SourceNamed("", "p", FIRST, 0), 0)
    undo()
    assert index.source_ids.known("", "p", SECOND) is SourceKnown.FIRST
    index.apply(1, SourceNamed("", "p", FIRST, 0), 0)
    for step in index.snapshot_steps():
        for piece in step:
            again.replayed(2, piece)
    known = again.source_ids.known
    assert (known("", "p", FIRST), known("", "p", SECOND)) == (SourceKnown.SAME, SourceKnown.OTHER)
    assert (known("t", "p", FIRST), known("", "p", None)) == (SourceKnown.FIRST, SourceKnown.UNNAMED)


async def test_a_source_is_recorded_before_it_is_answered() -> None:
    async with producing() as lanes:
        await lanes.register()
        lanes.served.disk.hold()
        pending = await lanes.served.begin(lanes.register(source_id=FIRST))
        assert not pending.done()
        lanes.served.disk.faults.append("full")
        await lanes.served.disk.release()
        with pytest.raises(LedgerFull):
            await pending


async def test_an_id_that_is_no_name_is_refused() -> None:
    async with producing() as lanes:
        for source_id, error in (("", BadRequest), ("x" * 513, TooLarge)):
            with pytest.raises(error):
                await lanes.register(source_id=source_id)
        assert (await lanes.register(source_id="x" * 512)).epoch == 1


async def test_a_lane_knows_its_source_too(lane: DirectLanes) -> None:
    opened = await lane.open()
    assert (await lane.open(source_id=FIRST)).lane == opened.lane
    with pytest.raises(SourceReplaced):
        await lane.open(source_id=SECOND)
    assert (await lane.open(source_id=FIRST)).lane == opened.lane
    assert (await lane.open("u", source_id=SECOND)).lane == 2, "a lane of another topic"
