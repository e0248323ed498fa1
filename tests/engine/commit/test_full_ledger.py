"""A definite refusal: nothing was written, the index is undone, known facts are still answered, a probe reopens."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from oncegate.core.claims import ClaimState, Verb
from oncegate.core.errors import LedgerFull
from oncegate.engine.commit.room import PROBE_MS
from tests.support.index.claim_index import contents
from tests.support.memory_gateway import (
    BATCH,
    GatedLedgers,
    Served,
    id16,
    rows_of,
    run_ready_tasks,
    serving,
    verdicts_of,
    winner,
)
from tests.support.producing_lanes import Lanes


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with serving() as served:
        yield served


async def fill(served: Served) -> None:
    """Fills the disk, and lets the shard notice."""
    served.disk.faults = ["full"]
    with pytest.raises(LedgerFull):
        await served.claim("the last straw", token=99)


async def test_all_waiting_changes_are_undone_and_answered(served: Served) -> None:
    served.disk.hold()
    first = await served.begin(served.claim("a"))
    second = await served.begin(served.claim("b", token=2))
    duplicate_of_nothing = await served.begin(served.claim("a"))
    served.disk.faults = ["full"]
    await served.disk.release()
    for task in (first, second, duplicate_of_nothing):
        assert isinstance(task.exception(), LedgerFull)
    assert (served.shard.counters()["ids"], served.shard.counters()["open_claims"]) == (0, 0)
    assert contents(served.shard.journal.index.claims) == {}, "also of what was only queued"


@pytest.mark.parametrize(("free_bytes", "missing"), [(0, "1 MiB"), (1 - (1 << 20), "1 MiB"), (-(1 << 20), "2 MiB")])
async def test_a_refusal_reports_the_missing_room_to_the_last_byte(
    served: Served, free_bytes: int, missing: str
) -> None:
    served.disk.free_bytes = (free_bytes, 1 << 30)
    await fill(served)
    with pytest.raises(LedgerFull, match=f"; {missing} more must be free"):
        await served.claim("a")
    served.disk.free_bytes = (1, 1 << 30)
    served.clock.advance(PROBE_MS)
    await run_ready_tasks()
    assert verdicts_of(await served.claim("a")) == ["GRANTED"]


async def test_ids_completed_before_are_still_duplicates_while_full(served: Served) -> None:
    claimed = await served.claim("a")
    await served.settle(Verb.COMPLETE, claimed.claim)
    await fill(served)
    assert verdicts_of(await served.claim("a", token=2)) == ["DUPLICATE"]
    assert (await served.settle(Verb.COMPLETE, claimed.claim)).state is ClaimState.DONE


async def test_busy_and_renewals_are_answered_while_full(served: Served) -> None:
    claimed = await served.claim("a")
    await fill(served)
    assert verdicts_of(await served.claim("a", token=2)) == ["BUSY"]
    assert (await served.settle(Verb.RENEW, claimed.claim)).state is ClaimState.OPEN


async def test_completes_and_releases_are_written_into_the_room_that_is_kept_for_them(served: Served) -> None:
    done, free = await served.claim("a"), await served.claim("b", token=2)
    await fill(served)
    assert (await served.settle(Verb.COMPLETE, done.claim)).state is ClaimState.DONE
    assert (await served.settle(Verb.RELEASE, free.claim)).state is ClaimState.RELEASED
    assert served.disk.kinds()[-2:] == [["Completed"], ["Released"]]
    with pytest.raises(LedgerFull):
        await served.claim("c", token=3)
    assert served.gateway.readiness() == {"default": "FULL"}, "an end that was written is no room for more"


async def test_sequences_too_are_completed_while_full(served: Served) -> None:
    lanes = Lanes(served)
    await lanes.driver()
    await lanes.register()
    await lanes.claim(1, [0, 1])
    await fill(served)
    assert (await lanes.settle(Verb.COMPLETE, 1)).state is ClaimState.DONE


async def test_room_is_probed_for_also_while_ends_keep_coming(served: Served) -> None:
    held = [await served.claim(str(number), token=number + 1) for number in range(4)]
    await fill(served)
    for one in held:
        served.clock.advance(PROBE_MS // 2)
        await served.settle(Verb.COMPLETE, one.claim)
        await run_ready_tasks()
    assert served.gateway.readiness() == {"default": "SERVING"}


async def test_nothing_is_probed_while_only_reserved_room_is_left(served: Served) -> None:
    await fill(served)
    served.disk.free_bytes = (0, 1_000)
    await reopen(served)
    assert served.disk.kinds()[-1] == ["Claimed"], "the probe does not use reserved room"
    served.disk.free_bytes = (500, 1_000)
    await reopen(served)
    assert served.disk.kinds()[-1] == ["Probe"]
    assert served.gateway.readiness() == {"default": "SERVING"}


async def test_a_full_disk_reports_the_missing_room_as_of_its_last_probe(served: Served) -> None:
    mib = 1 << 20
    served.disk.free_bytes = (-5 * mib, 100 * mib)
    await fill(served)
    for free_bytes, room in ((-5 * mib, "6 MiB more must be free"), (1 - 2 * mib, "2 MiB more must be free")):
        served.disk.free_bytes = (free_bytes, 100 * mib)
        await reopen(served)
        assert room in served.shard.failing()["room"]
        with pytest.raises(LedgerFull, match=f"{room}.*nothing was written"):
            await served.claim("a")
    served.disk.free_bytes = (1, 100 * mib)
    await reopen(served)
    assert served.shard.failing() == {}


async def test_a_full_disk_is_one_line_of_the_log_and_its_end_another(served: Served) -> None:
    await fill(served)
    served.disk.faults = ["full", "full"]
    for _ in range(3):
        await reopen(served)
    told = [name for name in served.events.names() if name.startswith("ledger_")]
    assert told == ["ledger_full", "ledger_has_room"]


async def test_a_gateway_that_starts_on_a_full_disk_answers_what_it_knows_and_refuses_the_rest() -> None:
    ledgers = GatedLedgers()
    async with serving(ledgers) as before:
        claimed = await before.claim("a")
        await before.settle(Verb.COMPLETE, claimed.claim)
        held = await before.claim("b", token=2)
    ledgers.disk.free_bytes = (0, 1_000)
    async with serving(ledgers) as after:
        assert after.gateway.readiness() == {"default": "FULL"}
        assert verdicts_of(await after.claim("a", token=3)) == ["DUPLICATE"]
        with pytest.raises(LedgerFull):
            await after.claim("new", token=3)
        assert (await after.settle(Verb.COMPLETE, held.claim)).state is ClaimState.DONE


async def test_everything_else_that_must_write_is_refused_while_full(served: Served) -> None:
    staged = winner(await served.stage(rows_of(1)))
    await fill(served)
    appends = len(served.disk.appends)
    for asked in (
        served.claim("new", token=3),
        served.stage(rows_of(2), token=2),
        served.commit(staged),
        served.abort(1),
        served.produce(rows_of(3)),
    ):
        with pytest.raises(LedgerFull):
            await asked
    assert len(served.disk.appends) == appends, "asked in vain, the disk is left alone"


async def test_a_settled_claim_is_open_again_when_its_end_was_refused(served: Served) -> None:
    claimed = await served.claim("a", "b")
    served.disk.faults = ["full"]
    with pytest.raises(LedgerFull):
        await served.settle(Verb.COMPLETE, claimed.claim)
    assert verdicts_of(await served.claim("a", token=2)) == ["BUSY"]
    await reopen(served)
    assert (await served.settle(Verb.COMPLETE, claimed.claim)).settled == 2


async def reopen(served: Served) -> None:
    await run_ready_tasks()
    served.clock.advance(PROBE_MS)
    await run_ready_tasks()


async def test_a_probe_brings_service_back(served: Served) -> None:
    await fill(served)
    await reopen(served)
    assert served.disk.kinds()[-1] == ["Probe"]
    assert verdicts_of(await served.claim("a")) == ["GRANTED"]


async def test_a_refused_probe_is_repeated_and_leaves_no_hole(served: Served) -> None:
    await fill(served)
    served.disk.faults = ["full", "full"]
    for _ in range(2):
        await reopen(served)
        with pytest.raises(LedgerFull):
            await served.claim("a")
    await reopen(served)
    before = served.namespace.mark.position
    await served.claim("a")
    assert served.namespace.mark.position == before + 1


async def test_nothing_is_probed_before_its_time(served: Served) -> None:
    await fill(served)
    await run_ready_tasks()
    served.clock.advance(PROBE_MS - 1)
    await run_ready_tasks()
    assert served.disk.kinds()[-1] == ["Claimed"]


async def test_a_refused_commit_leaves_its_stages_and_can_be_repeated(served: Served) -> None:
    staged = winner(await served.stage(rows_of(1, 2)))
    served.disk.faults = ["full"]
    with pytest.raises(LedgerFull):
        await served.commit(staged)
    assert served.shard.journal.index.topics.names() == []
    await reopen(served)
    assert (await served.commit(staged)).outcome == "COMMITTED"
    assert await served.read() == [1, 2]


async def test_an_abort_on_a_full_ledger_is_not_said_by_the_probe(served: Served) -> None:
    """A change queued while the ledger is full must not share its position with the probe."""
    await served.stage(rows_of(1))
    await fill(served)
    served.disk.hold()
    abort = await served.begin(served.abort(1))
    assert isinstance(abort.exception(), LedgerFull)
    await reopen(served)
    await served.disk.release()
    assert (await served.abort(1)).removed == 1


async def test_rows_swept_during_a_refused_commit_are_still_swept_later(served: Served) -> None:
    staged = winner(await served.stage(rows_of(1)))
    served.disk.hold()
    commit = await served.begin(served.commit(staged))
    served.shard.stages.sweep()
    served.disk.faults = ["full"]
    await served.disk.release()
    assert isinstance(commit.exception(), LedgerFull)
    await reopen(served)
    served.shard.stages.sweep()
    served.clock.advance(served.gateway.limits.stage_ttl_ms)
    served.shard.stages.sweep()
    await run_ready_tasks()
    assert served.shard.counters()["stage_bytes"] == 0


async def test_a_sweep_writes_nothing_while_full(served: Served) -> None:
    await served.stage(rows_of(1))
    await fill(served)
    served.clock.advance(served.gateway.limits.stage_ttl_ms)
    appends = len(served.disk.appends)
    served.shard.stages.sweep()
    assert len(served.disk.appends) == appends
    assert served.shard.counters()["stage_bytes"] > 0


async def test_the_ledger_holds_nothing_of_what_was_refused() -> None:
    ledgers = GatedLedgers()
    async with serving(ledgers) as served:
        await served.claim("kept", token=1)
        await fill(served)
        await reopen(served)
        await served.claim("kept too", token=2)
    async with serving(ledgers) as served:
        asked = await served.claim("kept", "the last straw", "kept too", token=3)
        assert verdicts_of(asked) == ["BUSY", "GRANTED", "BUSY"]


async def test_a_gateway_with_a_full_ledger_closes_at_once() -> None:
    async with asyncio.timeout(20):
        async with serving() as served:
            await fill(served)
            await run_ready_tasks()


async def test_names_of_a_refused_commit_can_be_used(served: Served) -> None:
    served.disk.faults = ["full"]
    with pytest.raises(LedgerFull):
        await served.stage(rows_of(1), BATCH, token=1)
    await reopen(served)
    staged = winner(await served.stage(rows_of(7), BATCH, token=1))
    assert staged.token == id16(1)
    await served.commit(staged)
    assert await served.read() == [7]
