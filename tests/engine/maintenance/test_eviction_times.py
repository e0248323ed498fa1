"""The timing of eviction: soon after the limit is exceeded, and with pauses in which other work runs."""

from oncegate.engine.recovery.owner import EVICTION_MS
from oncegate.engine.requests import SettingsRequest
from tests.support.memory_gateway import wait_until
from tests.support.sealed import HOT, HOUR_MS, counters, eviction, names, pass_hours, seal, settled, take


async def test_ids_leave_memory_within_half_a_second_of_there_being_too_many() -> None:
    async with eviction() as served:
        await take(served, 1, *names(0, 2 * HOT))
        assert counters(served) == (2 * HOT, 2 * HOT, 0)
        served.clock.advance(EVICTION_MS)
        await wait_until(lambda: counters(served)[2] > 0)
        await settled(served)
        assert counters(served)[1] <= HOT


async def test_a_collection_that_is_due_has_its_turn_between_two_rounds() -> None:
    """The upkeep itself runs every five seconds, and might meet a round in progress each time."""
    async with eviction(collect_bytes=1) as served:
        await take(served, 1, *names(0, 2 * HOT))
        served.shard.eviction.step()
        await settled(served)
        await wait_until(lambda: "compaction" in served.events.names())


async def test_nothing_is_collected_in_the_middle_of_a_round() -> None:
    async with eviction(collect_bytes=1) as served:
        await take(served, 1, *names(0, 2 * HOT))
        served.disk.hold()
        served.shard.eviction.step()
        await wait_until(lambda: served.shard.eviction.busy)
        served.shard.scheduler.compact()
        assert not served.shard.snapshotter.compacting
        await served.disk.release()
        await settled(served)
        await wait_until(lambda: "compaction" in served.events.names())


async def test_an_owners_record_is_removed_with_the_last_of_its_ids() -> None:
    """An owner is a job, and each run of a job may name another."""
    async with eviction(hot_ids=0) as served:
        await served.namespace.settings.configure(SettingsRequest(24 * HOUR_MS), served.deadline())
        claims, rows = served.shard.journal.index.claims, []
        for owner in range(1, 5):
            asked = [f"of {owner}", f"and {owner}"]
            await take(served, owner, *asked)
            await seal(served)
            assert await take(served, owner, *asked) == ["GRANTED", "GRANTED"]
            assert await take(served, owner + 1, *asked) == ["DUPLICATE", "DUPLICATE"]
            rows.append(claims.rows.in_use)
            await pass_hours(served, 27)
            assert await take(served, owner + 100, *asked) == ["GRANTED", "GRANTED"]
            await pass_hours(served, 27)
            assert len(claims.archives.kinds) == 0
        assert len(set(rows)) == 1
