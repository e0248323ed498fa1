"""The background work of a shard: ids retire after the retention of ids, rows after the topic's retention."""

from collections.abc import AsyncIterator

import pytest

from oncegate.core.claims import Verb
from oncegate.core.errors import BadRequest, OffsetTrimmed
from oncegate.engine.maintenance.scheduler import bucket_ms
from oncegate.engine.recovery.owner import MAINTENANCE_MS
from oncegate.engine.requests import SettingsRequest, TopicRequest
from tests.support.memory_gateway import GatedLedgers, Served, rows_of, run_ready_tasks, serving, verdicts_of

HOUR_MS = 3_600_000
HORIZON_MS = 24 * HOUR_MS


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with serving() as served:
        await served.namespace.settings.configure(SettingsRequest(HORIZON_MS), served.deadline())
        yield served


async def done(served: Served, *ids: str, token: int) -> None:
    claimed = await served.claim(*ids, token=token)
    await served.settle(Verb.COMPLETE, claimed.claim)


async def pass_hours(served: Served, hours: int) -> None:
    """Runs the upkeep once per hour; in reality it runs far more often."""
    for _ in range(hours):
        served.clock.advance(HOUR_MS)
        served.shard.scheduler.step()
        await run_ready_tasks()


def retirements(served: Served) -> int:
    return sum(kinds.count("Retired") for kinds in served.disk.kinds())


async def test_a_done_id_is_known_for_the_horizon_and_forgotten_two_buckets_later_at_most(served: Served) -> None:
    await done(served, "a", token=1)
    await pass_hours(served, 24)
    assert verdicts_of(await served.claim("a", token=2)) == ["DUPLICATE"]
    await pass_hours(served, 2)
    assert verdicts_of(await served.claim("a", token=3)) == ["GRANTED"]


async def test_an_id_done_within_a_bucket_is_known_for_the_whole_horizon(served: Served) -> None:
    await done(served, "first", token=1)
    await pass_hours(served, 1)
    served.clock.advance(HOUR_MS // 2)
    await done(served, "a", token=2)
    served.clock.advance(HOUR_MS // 2)
    served.shard.scheduler.step()
    await pass_hours(served, 23)
    assert verdicts_of(await served.claim("first", "a", token=3)) == ["GRANTED", "DUPLICATE"]


async def test_without_a_horizon_nothing_is_ever_forgotten() -> None:
    async with serving() as served:
        await done(served, "a", token=1)
        await pass_hours(served, 100)
        assert verdicts_of(await served.claim("a", token=2)) == ["DUPLICATE"]


async def test_an_open_claim_does_not_retire_and_counts_from_its_completion(served: Served) -> None:
    claimed = await served.claim("a", token=1)
    await pass_hours(served, 30)
    await served.settle(Verb.COMPLETE, claimed.claim)
    await pass_hours(served, 20)
    assert verdicts_of(await served.claim("a", token=2)) == ["DUPLICATE"]


async def test_each_bucket_is_one_entry_and_none_is_written_where_nothing_can_retire(served: Served) -> None:
    await pass_hours(served, 30)
    assert retirements(served) == 0
    await done(served, "a", token=1)
    for _ in range(20):
        served.clock.advance(bucket_ms(HORIZON_MS) // 10)
        served.shard.scheduler.step()
    await run_ready_tasks()
    assert retirements(served) == 2
    await pass_hours(served, 60)
    assert retirements(served) == 25


async def test_a_bucket_lasts_its_time_to_the_millisecond(served: Served) -> None:
    await done(served, "a", token=1)
    await pass_hours(served, 1)
    for passed_ms, count in ((bucket_ms(HORIZON_MS) - 1, 1), (1, 2)):
        served.clock.advance(passed_ms)
        served.shard.scheduler.step()
        await run_ready_tasks()
        assert retirements(served) == count


async def test_a_wall_clock_set_forward_makes_nothing_older(served: Served) -> None:
    await done(served, "a", token=1)
    served.clock.step_wall_ms(1_000 * HOUR_MS)
    await done(served, "b", token=2)
    await pass_hours(served, 24)
    assert verdicts_of(await served.claim("a", "b", token=3)) == ["DUPLICATE", "DUPLICATE"]
    await pass_hours(served, 2)
    assert verdicts_of(await served.claim("a", "b", token=4)) == ["GRANTED", "GRANTED"]


async def test_buckets_go_on_after_a_restart_and_time_in_between_does_not_count() -> None:
    ledgers = GatedLedgers()
    async with serving(ledgers) as served:
        await served.namespace.settings.configure(SettingsRequest(HORIZON_MS), served.deadline())
        await done(served, "a", token=1)
        await pass_hours(served, 12)
    async with serving(ledgers) as served:
        served.clock.step_wall_ms(1_000 * HOUR_MS)
        await pass_hours(served, 12)
        assert verdicts_of(await served.claim("a", token=2)) == ["DUPLICATE"]
        await pass_hours(served, 2)
        assert verdicts_of(await served.claim("a", token=3)) == ["GRANTED"]


async def test_another_retention_of_ids_restarts_the_count(served: Served) -> None:
    await done(served, "a", token=1)
    await pass_hours(served, 20)
    await served.namespace.settings.configure(SettingsRequest(2 * HORIZON_MS), served.deadline())
    await pass_hours(served, 47)
    assert verdicts_of(await served.claim("a", token=2)) == ["DUPLICATE"]
    await pass_hours(served, 5)
    assert verdicts_of(await served.claim("a", token=3)) == ["GRANTED"]


async def test_a_wall_clock_set_back_keeps_the_ledgers_time(served: Served) -> None:
    await done(served, "a", token=1)
    served.clock.step_wall_ms(-500 * HOUR_MS)
    await done(served, "b", token=2)
    await pass_hours(served, 24)
    assert verdicts_of(await served.claim("b", token=3)) == ["DUPLICATE"], "its time is not before the ledger's last"


async def test_what_retired_is_forgotten_after_a_restart_too_and_not_before_it_was_durable() -> None:
    ledgers = GatedLedgers()
    async with serving(ledgers) as served:
        await served.namespace.settings.configure(SettingsRequest(HORIZON_MS), served.deadline())
        await done(served, "a", token=1)
        await pass_hours(served, 26)
        served.clock.advance(HOUR_MS)
    async with serving(ledgers) as served:
        assert verdicts_of(await served.claim("a", token=2)) == ["GRANTED"]


async def test_a_grant_of_a_retired_id_waits_for_the_retirement_to_be_durable(served: Served) -> None:
    await done(served, "a", token=1)
    await pass_hours(served, 24)
    served.clock.advance(HOUR_MS)
    served.disk.hold()
    served.shard.scheduler.step()
    pending = await served.begin(served.claim("a", token=2))
    assert not pending.done()
    await served.disk.release()
    assert verdicts_of(await pending) == ["GRANTED"]


async def test_a_retirement_that_the_ledger_refuses_is_taken_back(served: Served) -> None:
    await done(served, "a", token=1)
    await pass_hours(served, 24)
    served.clock.advance(HOUR_MS)
    served.disk.faults = ["full"]
    served.shard.scheduler.step()
    await run_ready_tasks()
    assert verdicts_of(await served.claim("a", token=2)) == ["DUPLICATE"]


async def test_a_gateway_that_is_started_every_day_forgets_all_the_same() -> None:
    """Whole hours of running time are counted, so that a long retention of ids does not need a long-lived process."""
    ledgers, horizon_ms, days = GatedLedgers(), 30 * 24 * HOUR_MS, 0
    async with serving(ledgers) as served:
        await served.namespace.settings.configure(SettingsRequest(horizon_ms), served.deadline())
        await done(served, "a", token=1)
    while days < 40:
        async with serving(ledgers) as served:
            await pass_hours(served, 24)
            if days == 28:
                assert verdicts_of(await served.claim("a", token=2)) == ["DUPLICATE"]
        days += 1
    async with serving(ledgers) as served:
        assert verdicts_of(await served.claim("a", token=3)) == ["GRANTED"]


async def test_a_horizon_shorter_than_what_may_still_be_repeated_is_refused(served: Served) -> None:
    with pytest.raises(BadRequest, match="at least 3600000"):
        await served.namespace.settings.configure(SettingsRequest(HOUR_MS - 1), served.deadline())
    await served.namespace.settings.configure(SettingsRequest(0), served.deadline())
    assert served.namespace.settings.horizon_ms == 0


async def low(served: Served) -> tuple[int, int]:
    view = await served.namespace.topics.view("topic")
    return view.low_offsets[0], view.high_offsets[0]


async def test_rows_older_than_a_topics_retention_go_whole_requests_at_a_time(served: Served) -> None:
    await served.namespace.topics.create(TopicRequest("topic", retention_ms=HOUR_MS), served.deadline())
    await served.produce(rows_of(1, 2), call=1)
    served.clock.advance(HOUR_MS // 2)
    await served.produce(rows_of(3), call=2)
    served.clock.advance(HOUR_MS // 2)
    served.shard.scheduler.step()
    await run_ready_tasks()
    assert await low(served) == (2, 3)
    with pytest.raises(OffsetTrimmed):
        await served.namespace.topics.fetch("topic", 0, 1, 10, 1 << 30)
    fetched = await served.namespace.topics.fetch("topic", 0, 2, 10, 1 << 30)
    assert [chunk.first_offset for chunk in fetched.chunks] == [2]
    await served.produce(rows_of(4), call=3)
    assert await low(served) == (2, 4)


async def test_rows_beyond_a_topics_bytes_go_but_never_the_newest(served: Served) -> None:
    await served.namespace.topics.create(TopicRequest("topic", retention_bytes=1), served.deadline())
    for call in range(3):
        await served.produce(rows_of(call), call=call)
    served.shard.scheduler.step()
    await run_ready_tasks()
    assert await low(served) == (2, 3)


@pytest.mark.parametrize(("retained", "lowest"), [(3, 0), (2, 1), (1, 2)])
async def test_rows_of_exactly_a_topics_bytes_stay(served: Served, retained: int, lowest: int) -> None:
    size_bytes = len(rows_of(0).data)
    request = TopicRequest("topic", retention_bytes=retained * size_bytes)
    await served.namespace.topics.create(request, served.deadline())
    for call in range(3):
        await served.produce(rows_of(call), call=call)
    served.shard.scheduler.step()
    await run_ready_tasks()
    assert await low(served) == (lowest, 3)


async def test_retention_is_the_same_after_a_restart() -> None:
    ledgers = GatedLedgers()
    async with serving(ledgers) as served:
        await served.namespace.topics.create(TopicRequest("topic", retention_ms=HOUR_MS), served.deadline())
        await served.produce(rows_of(1, 2), call=1)
        await pass_hours(served, 1)
    async with serving(ledgers) as served:
        assert await low(served) == (2, 2)
        view = await served.namespace.topics.view("topic")
        assert (view.retention_ms, view.retention_bytes) == (HOUR_MS, 0)


async def test_one_step_trims_a_bounded_number_of_partitions_in_one_append() -> None:
    async with serving(trims_per_step=2) as served:
        request = TopicRequest("topic", partitions=3, retention_ms=HOUR_MS)
        await served.namespace.topics.create(request, served.deadline())
        for call in range(3):
            await served.produce(rows_of(call), call=call)
        served.clock.advance(HOUR_MS)
        await run_ready_tasks()
        assert served.disk.kinds()[-1] == ["Trimmed", "Trimmed"]
        served.clock.advance(MAINTENANCE_MS)
        await run_ready_tasks()
        assert (await served.namespace.topics.view("topic")).low_offsets == [1, 1, 1]


async def test_a_trim_that_the_ledger_refuses_is_taken_back(served: Served) -> None:
    await served.namespace.topics.create(TopicRequest("topic", retention_ms=HOUR_MS), served.deadline())
    await served.produce(rows_of(1, 2), call=1)
    served.clock.advance(HOUR_MS)
    served.disk.faults = ["full"]
    served.shard.scheduler.step()
    await run_ready_tasks()
    assert await low(served) == (0, 2)
    assert await served.read() == [1, 2]
