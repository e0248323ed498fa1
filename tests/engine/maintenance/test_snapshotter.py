"""Compaction: the snapshot replaces the entries that it covers, whatever waits, fails or arrives meanwhile."""

from collections.abc import AsyncIterator

import pytest

from oncegate.core.claims import ClaimState, Verb
from oncegate.core.errors import LedgerBehind
from oncegate.engine.maintenance import scheduler
from oncegate.engine.maintenance.scheduler import COMPACT_AGAIN_MS
from oncegate.engine.requests import SettingsRequest, TopicRequest
from tests.support.index.claim_index import contents
from tests.support.memory_gateway import (
    GatedLedgers,
    Served,
    rows_of,
    run_ready_tasks,
    serving,
    verdicts_of,
    wait_until,
    winner,
)

HOUR_MS = 3_600_000


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with serving(collect_bytes=1) as served:
        yield served


async def work(served: Served) -> None:
    """Puts some of everything into the index."""
    await served.namespace.settings.configure(SettingsRequest(48 * HOUR_MS), served.deadline())
    await served.namespace.topics.create(
        TopicRequest("topic", partitions=2, retention_ms=90 * HOUR_MS), served.deadline()
    )
    claimed = await served.claim("done", "taken over", token=1)
    await served.settle(Verb.COMPLETE, claimed.claim)
    await served.claim("open", token=2)
    staged = await served.stage(rows_of(1, 2), token=3)
    await served.commit(winner(staged, token=3), nonce=4, digest=b"d" * 32)
    await served.stage(rows_of(3), token=5, owner="run:2")
    await served.produce(rows_of(4, 5), call=6)


async def compact(served: Served) -> None:
    """Compacts as the upkeep does."""
    served.shard.scheduler.compact()
    await wait_until(lambda: not served.shard.snapshotter.compacting)


async def look(served: Served) -> list[object]:
    namespace = served.namespace
    view = await namespace.topics.view("topic")
    return [
        contents(namespace.home.journal.index.claims),
        vars(namespace.home.journal.index.batches.committed),
        {name: set(stages) for name, stages in namespace.home.journal.index.batches.stages.items()},
        (namespace.settings.horizon_ms, view.high_offsets, view.low_offsets, view.retention_ms, view.schema),
        {name: namespace.home.counters()[name] for name in ("ids", "open_claims", "takeovers", "stage_bytes")},
        await served.read(),
    ]


async def test_a_restart_over_a_collected_ledger_knows_everything_it_knew() -> None:
    ledgers = GatedLedgers()
    async with serving(ledgers, collect_bytes=1) as served:
        await work(served)
        await compact(served)
        await served.claim("after", token=9)
        before = await look(served)
    async with serving(ledgers) as served:
        assert await look(served) == before
        assert verdicts_of(await served.claim("done", "open", "after", token=10)) == ["DUPLICATE", "BUSY", "BUSY"]
        assert (await served.commit(nonce=4)).outcome == "COMMITTED"
        kinds = served.disk.kinds()
    assert kinds == []


async def test_what_waited_when_the_index_was_saved_is_in_it_and_durable_before() -> None:
    ledgers = GatedLedgers()
    async with serving(ledgers, collect_bytes=1) as served:
        await work(served)
        served.disk.hold()
        first = await served.begin(served.claim("first", token=20))
        second = await served.begin(served.claim("second", token=21))
        served.shard.scheduler.compact()
        await run_ready_tasks()
        assert not first.done()
        await served.disk.release()
        assert (verdicts_of(await first), verdicts_of(await second)) == (["GRANTED"], ["GRANTED"])
        await wait_until(lambda: not served.shard.snapshotter.compacting)
        assert served.shard.journal.size_bytes == 0, "all of it was collected"
        before = await look(served)
    async with serving(ledgers) as served:
        assert await look(served) == before


async def test_refused_changes_are_not_in_a_snapshot_saved_meanwhile() -> None:
    ledgers = GatedLedgers()
    async with serving(ledgers, collect_bytes=1) as served:
        await work(served)
        served.disk.hold()
        first = await served.begin(served.claim("first", token=20))
        refused = await served.begin(served.claim("refused", token=21))
        served.shard.scheduler.compact()
        await run_ready_tasks()
        served.disk.faults = ["", "full"]
        await served.disk.release()
        assert verdicts_of(await first) == ["GRANTED"]
        with pytest.raises(Exception, match="no space left"):
            await refused
        await wait_until(lambda: not served.shard.snapshotter.compacting)
        before = await look(served)
    async with serving(ledgers) as served:
        assert await look(served) == before
        assert verdicts_of(await served.claim("refused", token=22)) == ["GRANTED"]


async def test_a_ledger_without_room_for_the_snapshot_keeps_its_entries(served: Served) -> None:
    await work(served)
    served.disk.collect_faults = ["full"]
    await compact(served)
    assert verdicts_of(await served.claim("new", token=9)) == ["GRANTED"]


async def test_what_found_no_room_is_collected_a_minute_later(served: Served) -> None:
    await work(served)
    served.disk.collect_faults = ["full"]
    await compact(served)
    size_bytes = served.shard.journal.size_bytes
    assert size_bytes > 0, "nothing was given back"
    await compact(served)
    assert served.events.names().count("compaction") == 1, "not at once"
    served.clock.advance(COMPACT_AGAIN_MS)
    await compact(served)
    assert served.events.names().count("compaction") == 2
    assert served.shard.journal.size_bytes < size_bytes


async def test_a_compaction_of_unknown_outcome_reopens_the_ledger(served: Served) -> None:
    await work(served)
    before = await look(served)
    served.disk.collect_faults = ["lost"]
    served.shard.scheduler.compact()
    await wait_until(lambda: served.gateway.readiness()["default"] != "SERVING")
    await run_ready_tasks()
    served.clock.advance(250)
    await wait_until(lambda: served.gateway.readiness()["default"] == "SERVING")
    assert (await look(served))[:3] == before[:3]


async def test_entries_that_come_while_the_state_is_written_are_answered(served: Served) -> None:
    await work(served)
    served.disk.collect_gate.clear()
    served.shard.scheduler.compact()
    await run_ready_tasks()
    assert served.shard.snapshotter.compacting
    assert verdicts_of(await served.claim("meanwhile", token=9)) == ["GRANTED"]
    served.disk.collect_gate.set()
    await wait_until(lambda: not served.shard.snapshotter.compacting)


async def test_a_mark_from_below_a_collection_passes_and_one_from_beyond_the_end_does_not() -> None:
    ledgers = GatedLedgers()
    async with serving(ledgers, collect_bytes=1) as served:
        await served.claim("a", token=40)
        old = served.namespace.mark
        await work(served)
        await compact(served)
        served.namespace.require(old)
        newest = served.namespace.mark
    async with serving(ledgers) as served:
        served.namespace.require(old)
        served.namespace.require(newest)
        with pytest.raises(LedgerBehind):
            served.namespace.require(type(old)(old.ledger, newest.position + 50, old.chain))


async def test_a_ledger_smaller_than_the_limit_is_not_collected() -> None:
    async with serving() as served:
        await work(served)
        await compact(served)
        assert "compaction" not in served.events.names()


async def test_no_second_snapshot_is_accepted_while_the_first_waits_for_its_append(served: Served) -> None:
    await work(served)
    served.disk.hold()
    first = await served.begin(served.claim("first", token=20))
    second = await served.begin(served.claim("second", token=21))
    served.shard.scheduler.compact()
    served.disk.gate.set()
    served.disk.gate.clear()  # lets one append through; the snapshot begins with the next, which is blocked
    await wait_until(first.done)
    await run_ready_tasks()
    assert (second.done(), served.disk.under_way) == (False, 1)
    assert served.shard.snapshotter.compacting
    await served.begin(served.claim("third", token=22))
    await served.disk.release()
    await wait_until(lambda: not served.shard.snapshotter.compacting)
    assert verdicts_of(await second) == ["GRANTED"]
    assert served.gateway.readiness() == {"default": "SERVING"}
    assert served.events.names().count("compaction") == 1


async def test_the_reason_against_compacting_is_logged_once_a_minute_and_shown(served: Served) -> None:
    await work(served)
    served.disk.collect_faults = ["full"] * 3
    for minute in range(3):
        for _ in range(12):
            await compact(served)
            assert served.shard.failing() == {"compaction": "no space left on device"}
            served.clock.advance(5_000)
        assert served.events.names().count("compaction_failed") == minute + 1
    await compact(served)
    assert served.shard.failing() == {}
    assert served.events.names().count("compaction_failed") == 3


async def test_a_step_that_raises_ends_the_snapshot_and_the_next_one_is_whole(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    await work(served)

    def broken(entry: object) -> bytes:
        raise RuntimeError("planted here")

    with monkeypatch.context() as patched:
        patched.setattr(scheduler, "encode", broken)
        await compact(served)
    assert served.shard.failing() == {"compaction": "RuntimeError('planted here')"}
    assert verdicts_of(await served.claim("new", token=9)) == ["GRANTED"]
    served.clock.advance(COMPACT_AGAIN_MS)
    await compact(served)
    assert (served.shard.failing(), served.events.names().count("compaction")) == ({}, 1)


@pytest.mark.parametrize("later", ["nothing", "a takeover", "a release"])
async def test_a_claim_settled_before_a_compaction_is_known_after_a_restart(later: str) -> None:
    ledgers = GatedLedgers()
    async with serving(ledgers, collect_bytes=1) as served:
        other = await served.claim("other", token=1, lease_ms=1_000)
        done = await served.claim("done", token=2)
        await served.settle(Verb.COMPLETE, done.claim)
        await compact(served)
        served.clock.advance(1_500)
        if later == "a takeover":
            assert verdicts_of(await served.claim("other", token=3)) == ["GRANTED+TAKEOVER"]
        elif later == "a release":
            await served.settle(Verb.RELEASE, other.claim)
    async with serving(ledgers) as served:
        assert (await served.settle(Verb.COMPLETE, done.claim)).state is ClaimState.DONE
