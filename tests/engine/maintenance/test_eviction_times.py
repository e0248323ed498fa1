"""When ids leave memory: soon after there are too many, and with pauses in which other things have their turn."""

from oncegate.engine.recovery.owner import EVICTION_MS
from tests.support.held import until
from tests.support.sealed import HOT, counters, eviction, names, settled, take


async def test_ids_leave_memory_within_half_a_second_of_there_being_too_many() -> None:
    async with eviction() as served:
        await take(served, 1, *names(0, 2 * HOT))
        assert counters(served) == (2 * HOT, 2 * HOT, 0)
        served.clock.advance(EVICTION_MS)
        await until(lambda: counters(served)[2] > 0)
        await settled(served)
        assert counters(served)[1] <= HOT


async def test_a_collection_that_is_due_has_its_turn_between_two_rounds() -> None:
    """The upkeep itself looks every five seconds, and might find a round under way each time."""
    async with eviction(collect_bytes=1) as served:
        await take(served, 1, *names(0, 2 * HOT))
        served.shard.eviction.step()
        await settled(served)
        await until(lambda: "compaction" in served.events.names())


async def test_nothing_is_collected_in_the_middle_of_a_round() -> None:
    async with eviction(collect_bytes=1) as served:
        await take(served, 1, *names(0, 2 * HOT))
        served.disk.hold()
        served.shard.eviction.step()
        await until(lambda: served.shard.eviction.busy)
        served.shard.scheduler.compact()
        assert not served.shard.snapshotter.compacting
        await served.disk.let_go()
        await settled(served)
        await until(lambda: "compaction" in served.events.names())
