"""An answer is sent only once every entry it depends on is durable: tests block the append and check who waits."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from oncegate.core.claims import ClaimState, IdState, Verb
from oncegate.core.entries.kinds import Name
from oncegate.core.errors import (
    BatchConflict,
    ChunkAltered,
    LedgerDown,
    LedgerFenced,
    LedgerFull,
    MissingStage,
    ReleasedClaim,
    SchemaMismatch,
    TokenReused,
)
from oncegate.core.lifecycle import Event
from oncegate.engine.commit.room import PROBE_MS
from oncegate.engine.recovery.owner import REOPEN_MS
from oncegate.engine.requests import Winner
from tests.support.memory_gateway import Served, rows_of, run_ready_tasks, serving, verdicts_of, winner

OTHER_BATCH = Name("query", "6", "topic")
INPUT, OTHER_INPUT = b"i" * 32, b"o" * 32


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with serving() as served:
        yield served


async def waits(served: Served, *tasks: "asyncio.Task[object]") -> None:
    """Checks that all tasks wait, and that none does once the append has returned."""
    await run_ready_tasks()
    assert not any(task.done() for task in tasks)
    await served.disk.release()
    assert all(task.done() for task in tasks)


async def test_granted_waits_for_its_entry(served: Served) -> None:
    served.disk.hold()
    claim = await served.begin(served.claim("a"))
    assert served.disk.kinds() == [["Claimed"]]
    await waits(served, claim)
    assert verdicts_of(claim.result()) == ["GRANTED"]


async def test_a_duplicate_of_a_completion_under_way_waits_for_it(served: Served) -> None:
    claimed = await served.claim("a")
    served.disk.hold()
    complete = await served.begin(served.settle(Verb.COMPLETE, claimed.claim))
    duplicate = await served.begin(served.claim("a", token=2))
    await waits(served, complete, duplicate)
    assert verdicts_of(duplicate.result()) == ["DUPLICATE"]


async def test_the_same_attempts_other_call_waits_for_the_claim_it_names(served: Served) -> None:
    served.disk.hold()
    first = await served.begin(served.claim("a", call=1))
    same = await served.begin(served.claim("a", call=2))
    await waits(served, first, same)
    assert verdicts_of(same.result()) == ["SAME+OF_CALL"]


async def test_the_repeat_of_a_claim_under_way_waits_for_it_and_writes_nothing_more(served: Served) -> None:
    served.disk.hold()
    first = await served.begin(served.claim("a"))
    again = await served.begin(served.claim("a"))
    await waits(served, first, again)
    assert (verdicts_of(again.result()), again.result().claim) == (["GRANTED"], first.result().claim)
    assert served.disk.kinds() == [["Claimed"]]


async def test_a_renewal_waits_for_the_claim_it_renews(served: Served) -> None:
    served.disk.hold()
    first = await served.begin(served.claim("a", lease_ms=5_000))
    claim = served.disk.appends[0][0].claim  # type: ignore[union-attr]
    renewal = await served.begin(served.settle(Verb.RENEW, claim))
    await waits(served, first, renewal)
    assert (renewal.result().state, renewal.result().lease_ms) == (ClaimState.OPEN, 5_000)


async def test_a_repeated_completion_waits_for_the_first(served: Served) -> None:
    claimed = await served.claim("a", "b")
    served.disk.hold()
    first = await served.begin(served.settle(Verb.COMPLETE, claimed.claim))
    again = await served.begin(served.settle(Verb.COMPLETE, claimed.claim))
    await waits(served, first, again)
    assert (again.result().state, again.result().settled) == (ClaimState.DONE, 2)
    assert served.disk.kinds()[-1] == ["Completed"]


async def test_a_takeover_waits_for_its_entry(served: Served) -> None:
    await served.claim("a")
    served.clock.advance(served.gateway.limits.lease_ms)
    served.disk.hold()
    taken = await served.begin(served.claim("a", token=2))
    await waits(served, taken)
    assert verdicts_of(taken.result()) == ["GRANTED+TAKEOVER"]


async def test_ids_freed_by_a_release_under_way_are_granted_after_it(served: Served) -> None:
    claimed = await served.claim("a")
    served.disk.hold()
    release = await served.begin(served.settle(Verb.RELEASE, claimed.claim))
    granted = await served.begin(served.claim("a", token=2))
    await waits(served, release, granted)
    assert verdicts_of(granted.result()) == ["GRANTED"]


async def test_busy_is_answered_at_once(served: Served) -> None:
    served.disk.hold()
    first = await served.begin(served.claim("a"))
    busy = await served.begin(served.claim("a", token=2))
    assert verdicts_of(busy.result()) == ["BUSY"]
    assert not first.done()


async def test_verdicts_on_durable_entries_are_said_at_once(served: Served) -> None:
    done, claimed = await served.claim("done"), await served.claim("held", token=2)
    await served.settle(Verb.COMPLETE, done.claim)
    served.disk.hold()
    await served.begin(served.claim("x", token=3))
    assert verdicts_of((await served.begin(served.claim("done", token=4))).result()) == ["DUPLICATE"]
    assert verdicts_of((await served.begin(served.claim("held", token=2))).result()) == ["GRANTED"]
    assert (await served.begin(served.settle(Verb.RENEW, claimed.claim))).result().state is ClaimState.OPEN
    assert (await served.begin(served.settle(Verb.COMPLETE, done.claim))).result().state is ClaimState.DONE


async def test_explain_waits_for_the_durability_of_its_answer(served: Served) -> None:
    served.disk.hold()
    await served.begin(served.claim("a"))
    fingerprint = served.disk.appends[0][0].fresh  # type: ignore[union-attr]
    explained = await served.begin(served.shard.claims.explain(fingerprint))
    await waits(served, explained)
    assert explained.result().state is IdState.CLAIMED_LIVE


async def test_a_stage_and_its_repeat_wait(served: Served) -> None:
    served.disk.hold()
    rows = rows_of(1, 2)
    first, again = await served.begin(served.stage(rows)), await served.begin(served.stage(rows))
    await waits(served, first, again)
    assert first.result() == again.result()
    assert served.disk.kinds() == [["Staged"]]


async def test_a_commit_its_repeat_and_its_replay_wait(served: Served) -> None:
    staged = winner(await served.stage(rows_of(1, 2)))
    served.disk.hold()
    first = await served.begin(served.commit(staged))
    again = await served.begin(served.commit(staged))
    replay = await served.begin(served.commit(staged, run="2", nonce=2))
    await waits(served, first, again, replay)
    assert [task.result().outcome for task in (first, again, replay)] == ["COMMITTED", "COMMITTED", "DUPLICATE"]
    assert served.disk.kinds()[1:] == [["TopicCreated", "Committed"], ["Asked"]]


async def test_a_stage_under_a_name_being_committed_waits_for_the_commit(served: Served) -> None:
    staged = winner(await served.stage(rows_of(1)))
    served.disk.hold()
    await served.begin(served.commit(staged))
    late = await served.begin(served.stage(rows_of(1), token=2))
    await waits(served, late)
    assert late.result().committed


async def test_an_abort_of_a_name_being_committed_waits_for_the_commit(served: Served) -> None:
    staged = winner(await served.stage(rows_of(1)))
    served.disk.hold()
    await served.begin(served.commit(staged))
    abort = await served.begin(served.abort(1))
    await waits(served, abort)
    assert abort.result().committed


async def test_an_abort_and_its_repeat_wait_for_the_drop(served: Served) -> None:
    await served.stage(rows_of(1))
    served.disk.hold()
    first, again = await served.begin(served.abort(1)), await served.begin(served.abort(1))
    await waits(served, first, again)
    assert (first.result().removed, again.result().removed) == (1, 0)


async def test_a_produce_waits_and_readers_do_not_see_it_before(served: Served) -> None:
    await served.produce(rows_of(1))
    served.disk.hold()
    produced = await served.begin(served.produce(rows_of(2), call=2))
    view = await served.begin(served.namespace.topics.view("topic"))
    read = await served.begin(served.read())
    await waits(served, produced, view, read)
    assert (view.result().high_offsets[0], read.result()) == (2, [1, 2])


Begun = Callable[[Served, bytes, list[Winner]], tuple[Any, Any]]

# A change, and a request that is refused because of it.
REFUSED_BECAUSE: dict[type[Exception], Begun] = {
    TokenReused: lambda served, claim, staged: (served.claim("a"), served.claim("b")),
    ReleasedClaim: lambda served, claim, staged: (
        served.settle(Verb.RELEASE, claim),
        served.settle(Verb.COMPLETE, claim),
    ),
    ChunkAltered: lambda served, claim, staged: (
        served.stage(rows_of(3), token=8),
        served.stage(rows_of(4), token=8),
    ),
    SchemaMismatch: lambda served, claim, staged: (
        served.produce(rows_of(3)),
        served.produce(rows_of(3, column="m")),
    ),
    MissingStage: lambda served, claim, staged: (served.abort(1), served.commit(staged[0])),
    BatchConflict: lambda served, claim, staged: (
        served.commit(staged[0], digest=INPUT),
        served.commit(staged[1], name=OTHER_BATCH, nonce=2, digest=OTHER_INPUT, previous=OTHER_INPUT),
    ),
}


@pytest.mark.parametrize("refusal", REFUSED_BECAUSE, ids=lambda refusal: refusal.__name__)
async def test_a_refusal_waits_for_the_entry_it_rests_on(served: Served, refusal: type[Exception]) -> None:
    claim = (await served.claim("k", token=7)).claim
    staged = [winner(await served.stage(rows_of(1))), winner(await served.stage(rows_of(2), OTHER_BATCH))]
    change, request = REFUSED_BECAUSE[refusal](served, claim or b"", staged)
    served.disk.hold()
    changed, refused = await served.begin(change), await served.begin(request)
    await waits(served, changed, refused)
    assert changed.exception() is None
    assert isinstance(refused.exception(), refusal)


@pytest.mark.parametrize("end", ["full", "lost"])
async def test_a_batch_is_refused_for_the_one_before_it_only_once_that_is_committed(served: Served, end: str) -> None:
    """An earlier answer could stop its query because of a history that was never written."""
    staged = [winner(await served.stage(rows_of(1))), winner(await served.stage(rows_of(2), OTHER_BATCH))]
    served.disk.hold()
    served.disk.faults = [end]
    ask: dict[str, Any] = {"name": OTHER_BATCH, "nonce": 2, "digest": OTHER_INPUT, "previous": OTHER_INPUT}
    before = await served.begin(served.commit(staged[0], digest=INPUT))
    later = await served.begin(served.commit(staged[1], **ask))
    await waits(served, before, later)
    assert isinstance(before.exception(), LedgerFull | LedgerDown)
    assert isinstance(later.exception(), LedgerFull | LedgerDown)
    served.clock.advance(max(PROBE_MS, REOPEN_MS))
    while served.gateway.readiness()["default"] != "SERVING":
        await run_ready_tasks()
    assert (await served.commit(staged[1], **ask)).outcome == "COMMITTED"
    assert await served.read() == [2]


@pytest.mark.parametrize("end", ["full", "lost"])
async def test_a_repeat_gets_busy_for_its_former_ids_only_once_the_takeover_is_durable(
    served: Served, end: str
) -> None:
    """After an earlier answer it would complete its claim without the ids it lost, even if the takeover were
    refused."""
    first = await served.claim("a", "b", token=1, lease_ms=1_000)
    served.clock.advance(1_000)
    served.disk.hold()
    served.disk.faults = [end]
    taker = await served.begin(served.claim("b", token=2))
    repeat = await served.begin(served.claim("a", "b", token=1, lease_ms=1_000))
    await waits(served, taker, repeat)
    assert isinstance(taker.exception(), LedgerFull | LedgerDown)
    assert isinstance(repeat.exception(), LedgerFull | LedgerDown)
    served.clock.advance(max(PROBE_MS, REOPEN_MS))
    while served.gateway.readiness()["default"] != "SERVING":
        await run_ready_tasks()
    again = await served.claim("a", "b", token=1, lease_ms=1_000)
    assert (verdicts_of(again), again.claim) == (["GRANTED", "GRANTED"], first.claim)


async def test_an_append_under_way_is_in_doubt_where_its_ledger_ends_beside_it(served: Served) -> None:
    """The append may already be durable: only changes that were not begun are known to be unwritten."""
    commit = served.shard.group_commit
    served.disk.hold()
    under_way = await served.begin(served.claim("a"))
    behind = await served.begin(served.claim("b", token=2))
    rests_on = commit.next_append - 1
    commit.write_end(Event.FENCED_BESIDE, LedgerFenced("another gateway owns this ledger now; nothing was written"))
    await run_ready_tasks()
    assert isinstance(under_way.exception(), LedgerDown)
    assert "whether this was written is unknown" in str(under_way.exception())
    assert isinstance(behind.exception(), LedgerFenced)
    with pytest.raises(LedgerDown, match="unknown"):
        await commit.durable(rests_on)
    with pytest.raises(LedgerFenced):
        await commit.durable(rests_on + 1)
    with pytest.raises(LedgerFenced):
        commit.check()
    await served.disk.release()
