"""The stages that are kept: later owners, the quota, the disk's floor, the time to live."""

from collections.abc import AsyncIterator

import pytest

from oncegate.core.entries.kinds import Name
from oncegate.core.errors import MissingStage, QuotaExceeded
from tests.support.memory_gateway import BATCH, GatedLedgers, Served, rows_of, run_ready_tasks, serving, winner

EARLIER = Name("query", "4", "topic")
OTHER_QUERY = Name("another", "5", "topic")
SIZE = len(rows_of(1).data)


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with serving() as served:
        yield served


def kept(served: Served) -> set[tuple[str, str]]:
    """Returns versions and owners of the stages."""
    return {(name.version, stage.owner) for name, stage in served.shard.journal.index.batches.all_stages()}


def pass_idle(served: Served) -> None:
    served.clock.advance(served.gateway.limits.stage_idle_ms)


async def test_a_later_run_drops_the_idle_stages_of_an_older_one(served: Served) -> None:
    zombies = await served.stage(rows_of(1), EARLIER, token=1, owner="run:1")
    await served.stage(rows_of(1), BATCH, token=2, owner="run:1")
    pass_idle(served)
    await served.stage(rows_of(1), BATCH, token=3, owner="run:2")
    assert kept(served) == {("5", "run:2")}
    with pytest.raises(MissingStage):
        await served.commit(winner(zombies), name=EARLIER)


async def test_an_older_run_that_still_calls_keeps_its_stages(served: Served) -> None:
    await served.stage(rows_of(1), token=1, owner="run:1")
    await served.stage(rows_of(1), token=2, owner="run:2")
    served.clock.advance(served.gateway.limits.stage_idle_ms - 1)
    await served.stage(rows_of(1), token=1, owner="run:1")
    served.clock.advance(1)
    await served.stage(rows_of(2), token=2, chunk=1, owner="run:2")
    assert kept(served) == {("5", "run:1"), ("5", "run:2")}


async def test_an_older_run_never_drops_its_successors(served: Served) -> None:
    await served.stage(rows_of(1), token=1, owner="run:1")
    await served.stage(rows_of(1), token=2, owner="run:2")
    pass_idle(served)
    await served.stage(rows_of(2), token=1, chunk=1, owner="run:1")
    assert kept(served) == {("5", "run:1"), ("5", "run:2")}


async def test_runs_are_distinguished_by_age_also_after_a_restart() -> None:
    ledgers = GatedLedgers()
    async with serving(ledgers) as served:
        await served.stage(rows_of(1), token=1, owner="run:1")
        await served.stage(rows_of(1), token=2, owner="run:2")
    async with serving(ledgers) as served:
        pass_idle(served)
        await served.stage(rows_of(2), token=1, chunk=1, owner="run:1")
        assert kept(served) == {("5", "run:1"), ("5", "run:2")}
        pass_idle(served)
        await served.stage(rows_of(2), token=2, chunk=1, owner="run:2")
        assert kept(served) == {("5", "run:2")}


async def test_another_query_and_another_topic_are_left_alone(served: Served) -> None:
    await served.stage(rows_of(1), OTHER_QUERY, token=1, owner="run:1")
    await served.stage(rows_of(1), Name("query", "5", "elsewhere"), token=2, owner="run:1")
    pass_idle(served)
    await served.stage(rows_of(1), token=3, owner="run:2")
    assert len(kept(served)) == 2
    assert served.shard.counters()["stage_bytes"] == 3 * SIZE


async def test_a_later_job_drops_an_older_jobs_stages_of_its_own_name_only(served: Served) -> None:
    await served.stage(rows_of(1), EARLIER, token=1, owner="job:a")
    await served.stage(rows_of(1), BATCH, token=2, owner="job:a")
    pass_idle(served)
    await served.stage(rows_of(1), BATCH, token=3, owner="job:b")
    assert kept(served) == {("4", "job:a"), ("5", "job:b")}


async def test_a_run_leaves_a_jobs_other_names_alone(served: Served) -> None:
    await served.stage(rows_of(1), EARLIER, token=1, owner="job:a")
    pass_idle(served)
    await served.stage(rows_of(1), BATCH, token=2, owner="run:1")
    assert kept(served) == {("4", "job:a"), ("5", "run:1")}


async def test_over_the_quota_nothing_is_stored() -> None:
    async with serving(stage_bytes=2 * SIZE) as served:
        await served.stage(rows_of(1), chunk=0)
        await served.stage(rows_of(2), chunk=1)
        appends = len(served.disk.appends)
        with pytest.raises(QuotaExceeded):
            await served.stage(rows_of(3), chunk=2)
        assert len(served.disk.appends) == appends
        assert served.shard.counters()["stage_bytes"] == 2 * SIZE


async def test_when_the_quota_is_short_an_older_owner_goes_at_once() -> None:
    async with serving(stage_bytes=2 * SIZE) as served:
        await served.stage(rows_of(1), EARLIER, token=1, owner="run:1")
        await served.stage(rows_of(2), token=1, owner="run:1")
        await served.stage(rows_of(3), token=2, owner="run:2")
        assert kept(served) == {("5", "run:2")}


async def test_a_commit_gives_the_quota_back() -> None:
    async with serving(stage_bytes=SIZE) as served:
        await served.commit(winner(await served.stage(rows_of(1))))
        assert (await served.stage(rows_of(2), Name("query", "6", "topic"))).rows == 1


async def test_below_the_disks_floor_nothing_is_staged_but_claims_go_on(served: Served) -> None:
    served.disk.free_bytes = (1_000 + SIZE - 1, 10_000)
    with pytest.raises(QuotaExceeded, match=r"nearly full: .* of its 10000 bytes are free, and 1000 stay free"):
        await served.stage(rows_of(1))
    await served.claim("a")
    served.disk.free_bytes = (1_000 + SIZE, 10_000)
    assert (await served.stage(rows_of(1))).rows == 1


async def test_of_a_large_disk_no_more_than_disk_free_bytes_stay_free() -> None:
    async with serving(disk_free_bytes=1_000) as served:
        served.disk.free_bytes = (1_000 + SIZE - 1, 1_000_000)
        with pytest.raises(QuotaExceeded, match="nearly full"):
            await served.stage(rows_of(1))
        served.disk.free_bytes = (1_000 + SIZE, 1_000_000)
        assert (await served.stage(rows_of(1))).rows == 1


async def test_unused_stages_are_dropped_after_their_time_to_live(served: Served) -> None:
    staged = await served.stage(rows_of(1))
    await run_ready_tasks()
    served.clock.advance(served.gateway.limits.stage_ttl_ms - 1)
    await run_ready_tasks()
    assert kept(served) == {("5", "run:1")}
    served.clock.advance(60_000)
    await run_ready_tasks()
    assert kept(served) == set()
    assert served.disk.kinds()[-1] == ["Dropped"]
    with pytest.raises(MissingStage):
        await served.commit(winner(staged))


async def test_the_time_to_live_counts_from_the_last_call_under_the_name(served: Served) -> None:
    await served.stage(rows_of(1), chunk=0)
    served.clock.advance(served.gateway.limits.stage_ttl_ms - 1)
    await served.stage(rows_of(1), chunk=0)
    served.clock.advance(1)
    served.shard.stages.sweep()
    assert kept(served) == {("5", "run:1")}
