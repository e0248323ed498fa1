"""A person clears leftovers of a dead task, never over a live lease, with an entry in the ledger."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from oncegate.core.claims import ClaimState, Verb
from oncegate.core.entries.producers import Resolved
from oncegate.core.errors import (
    BadRequest,
    LeaseLive,
    LedgerFull,
    ReleasedClaim,
    TooLarge,
    UnknownClaim,
    UnknownProducer,
)
from oncegate.engine.producer_requests import ResolveRequest
from oncegate.index.shard import ShardIndex
from tests.support.memory_gateway import GatedLedgers, id16, verdicts_of
from tests.support.producing_lanes import Lanes, lanes

LEASE_MS = 30_000
DONE, NOT_DONE = (ResolveRequest(is_done, "ada", "looked into the sink") for is_done in (True, False))


@pytest.fixture
async def lane() -> AsyncIterator[Lanes]:
    async with lanes() as found:
        yield found


async def clear(
    lane: Lanes, found: ResolveRequest, first: int | None = None, last: int | None = None, name: str = "p"
) -> int:
    leftovers, deadline = lane.namespace.operations.leftovers, lane.served.deadline()
    cleared: int = await leftovers.of_producer(name, (first, last), found, deadline)
    return cleared


async def clear_claim(lane: Lanes, claim: bytes | None, found: ResolveRequest) -> int:
    cleared: int = await lane.namespace.operations.leftovers.of_claim(claim, found, lane.served.deadline())
    return cleared


async def left(lane: Lanes) -> None:
    """Leaves 3, 4 and 7 claimed in epoch 1 when epoch 2 begins; 1 and 2 are completed."""
    await lane.claim(0, [1, 2])
    await lane.complete(0)
    await lane.claim(1, [3, 4, 7])
    await lane.close()
    await lane.register(token=2)


def refused(answer: Any) -> list[Any]:
    return [error.extra["not_done"] for error in answer.refused]


async def test_leftovers_resolved_as_done_are_duplicates_and_let_acks_pass(lane: Lanes) -> None:
    await left(lane)
    assert refused(await lane.ack([("p", 7)])) == [[[3, 4], [7, 7]]]
    assert await clear(lane, DONE) == 3
    assert verdicts_of(await lane.claim(0, [3, 7], token=2, epoch=2)) == ["DUPLICATE", "DUPLICATE"]
    answer = await lane.ack([("p", 7)])
    assert (answer.refused, answer.watermarks) == ((), (("p", 7),))


async def test_leftovers_resolved_as_not_done_let_acks_pass_and_are_granted_until_then(lane: Lanes) -> None:
    await left(lane)
    assert await clear(lane, NOT_DONE) == 3
    view = await lane.shard.producers.explain("p")
    assert (view.open.tolist(), view.resume_after) == ([[3, 4], [7, 7]], 2), "it is still not done"
    assert verdicts_of(await lane.claim(0, [3], token=2, epoch=2)) == ["GRANTED"]
    assert refused(await lane.ack([("p", 7)])) == [[[3, 3]]]
    await lane.complete(0, token=2, epoch=2)
    assert (await lane.ack([("p", 7)])).watermarks == (("p", 7),)
    assert verdicts_of(await lane.claim(1, [4, 7], token=2, epoch=2)) == ["STALE", "STALE"]


async def test_a_part_may_be_done_and_another_not_and_what_was_released_is_a_leftover_too(lane: Lanes) -> None:
    await left(lane)
    await lane.claim(0, [8, 9], token=2, epoch=2)
    await lane.settle(Verb.RELEASE, 0, token=2, epoch=2)
    assert [await clear(lane, DONE, 3, 3), await clear(lane, NOT_DONE, 4, 8)] == [1, 3]
    assert refused(await lane.ack([("p", 9)])) == [[[9, 9]]]
    assert await clear(lane, DONE) == 4, "sequences that were given up may still turn out done"
    assert await clear(lane, DONE) == await clear(lane, NOT_DONE) == 0, "done is done"
    assert (await lane.ack([("p", 9)])).watermarks == (("p", 9),)


async def test_nothing_is_cleared_over_a_live_lease(lane: Lanes) -> None:
    await lane.claim(0, [1, 2])
    claimed = await lane.served.claim("a", token=5)
    lane.served.clock.advance(LEASE_MS - 1)
    lane.served.disk.appends.clear()
    for found in (DONE, NOT_DONE):
        for asked in (clear(lane, found), clear_claim(lane, claimed.claim, found)):
            with pytest.raises(LeaseLive) as raised:
                await asked
            assert raised.value.extra == {"lease_left_ms": 1}
    assert lane.served.disk.appends == []
    lane.served.clock.advance(1)
    assert [await clear(lane, DONE), await clear_claim(lane, claimed.claim, DONE)] == [2, 1]


async def test_the_holder_of_cleared_ids_gets_their_new_state(lane: Lanes) -> None:
    """A zombie with an expired lease and no successor must not take its call for completed."""
    await lane.claim(0, [1, 2])
    await lane.claim(1, [5])
    lane.served.clock.advance(LEASE_MS)
    with pytest.raises(BadRequest, match="call 0 of producer p holds sequences from 1 to 2"):
        await clear(lane, NOT_DONE, 2)
    assert [await clear(lane, NOT_DONE, 1, 2), await clear(lane, DONE, 5)] == [2, 1]
    with pytest.raises(ReleasedClaim):
        await lane.complete(0)
    assert (await lane.complete(1)).state is ClaimState.DONE


async def test_a_claim_is_cleared_whole_and_as_it_would_be_settled(lane: Lanes) -> None:
    written, unwritten = await lane.claim_ids("a", "b", batch=3), await lane.claim_ids("c", batch=3, call=2)
    lane.served.clock.advance(LEASE_MS)
    assert len((await lane.ack(batch=3)).refused) == 1
    assert [await clear_claim(lane, written.claim, DONE), await clear_claim(lane, unwritten.claim, NOT_DONE)] == [2, 1]
    assert verdicts_of(await lane.claim_ids("a", "c", batch=4, token=2)) == ["DUPLICATE", "GRANTED"]
    assert [await clear_claim(lane, written.claim, DONE), await clear_claim(lane, written.claim, NOT_DONE)] == [0, 0]
    with pytest.raises(ReleasedClaim):
        await clear_claim(lane, unwritten.claim, DONE)
    with pytest.raises(UnknownClaim):
        await clear_claim(lane, id16(1), DONE)
    assert (await lane.ack(batch=3)).refused == ()


async def test_a_span_that_ends_before_it_begins_is_a_mistake_and_no_word_that_nothing_was_left(lane: Lanes) -> None:
    await left(lane)
    with pytest.raises(BadRequest, match="first 7 lies after last 3"):
        await clear(lane, DONE, 7, 3)
    assert await clear(lane, DONE, 3, 3) == 1


async def test_name_and_reason_are_in_the_ledger_and_in_the_log(lane: Lanes) -> None:
    await left(lane)
    claimed = await lane.served.claim("a", token=5)
    lane.served.clock.advance(LEASE_MS)
    lane.served.disk.appends.clear()
    await clear(lane, NOT_DONE, 3, 4)
    await clear_claim(lane, claimed.claim, DONE)
    assert lane.served.disk.kinds() == [["Resolved"], ["Completed", "Resolved"]]
    noted = [entry for group in lane.served.disk.appends for entry in group if isinstance(entry, Resolved)]
    assert [(entry.is_done, entry.who, entry.why) for entry in noted] == [
        (0, "ada", "looked into the sink"),
        (1, "ada", "looked into the sink"),
    ]
    told = [fields for event, fields in lane.served.events.seen if event == "resolved"]
    assert [(fields["who"], fields["done"]) for fields in told] == [("ada", False), ("ada", True)]


async def test_cleared_ids_stay_so_after_a_restart_and_a_compaction() -> None:
    ledgers = GatedLedgers()
    async with lanes(ledgers) as lane:
        await left(lane)
        await clear(lane, DONE, 3, 3)
        await clear(lane, NOT_DONE, 7)
        index, loaded = lane.shard.journal.index, ShardIndex()
        for position, saved in enumerate(index.snapshot(), 1):
            loaded.replayed(position, saved)
        found = loaded.producers.producers["p"]
        assert loaded.producers.undone(found).tolist() == [[4, 4]]
    async with lanes(ledgers) as lane:
        assert refused(await lane.ack([("p", 7)])) == [[[4, 4]]]
        assert verdicts_of(await lane.claim(0, [3, 7], token=2, epoch=2)) == ["DUPLICATE", "GRANTED"]


async def test_a_full_disk_takes_it_back(lane: Lanes) -> None:
    await lane.claim(0, [1, 2])
    lane.served.clock.advance(LEASE_MS)
    before = lane.shard.journal.index.producers.producers["p"]
    calls, position = dict(before.calls), before.position
    lane.served.disk.faults = ["full"]
    with pytest.raises(LedgerFull):
        await clear(lane, DONE)
    after = lane.shard.journal.index.producers.producers["p"]
    assert (after.calls, after.position) == (calls, position)
    assert refused(await lane.ack([("p", 2)])) == [[[1, 2]]]


@pytest.mark.parametrize(
    ("request_", "kind"),
    [
        (ResolveRequest(True, "", "why"), BadRequest),
        (ResolveRequest(True, "ada", ""), BadRequest),
        (ResolveRequest(True, "ada", "x" * 513), TooLarge),
    ],
)
async def test_nothing_is_cleared_without_a_name_and_a_reason(
    lane: Lanes, request_: ResolveRequest, kind: type[Exception]
) -> None:
    claimed = await lane.served.claim("a", token=5)
    lane.served.clock.advance(LEASE_MS)
    for asked in (clear(lane, request_), clear_claim(lane, claimed.claim, request_)):
        with pytest.raises(kind, match=r"who|why"):
            await asked
    with pytest.raises(UnknownProducer):
        await clear(lane, DONE, name="nobody")
