"""Producers, drivers, batches: durable before answered, undone after a refusal, repeated after a loss."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from oncegate.core.claims import ClaimState, Verb
from oncegate.core.errors import Fenced, LedgerDown, LedgerFull, NotDone, ProducerBusy
from oncegate.engine.commit.room import PROBE_MS
from oncegate.engine.producer_requests import ResolveRequest
from tests.support.index.claim_index import contents
from tests.support.memory_gateway import GatedLedgers, run_ready_tasks, verdicts_of, wait_until
from tests.support.producing_lanes import Lanes, lanes

LEASE_MS = 30_000


@pytest.fixture
async def lane() -> AsyncIterator[Lanes]:
    async with lanes() as found:
        yield found


async def waits(lane: Lanes, *tasks: "asyncio.Task[Any]") -> None:
    """Checks that all tasks wait, and that none does once the append has returned."""
    await run_ready_tasks()
    assert not any(task.done() for task in tasks)
    await lane.served.disk.release()
    assert all(task.done() for task in tasks)


async def prepared(lane: Lanes) -> None:
    """Completes call 0, leaves call 1 open, and completes batch 1 of ids."""
    await lane.claim(0, [1, 2])
    await lane.complete(0)
    await lane.claim(1, [3])
    claimed = await lane.claim_ids("a", batch=1)
    await lane.served.settle(Verb.COMPLETE, claimed.claim)
    lane.served.disk.appends.clear()


Asks = Callable[[Lanes], Awaitable[Any]]
# Every verb that writes, and its entries.
WRITES: dict[str, tuple[Asks, list[str]]] = {
    "register driver": (lambda lane: lane.driver(token=91), ["DriverRegistered"]),
    "register": (lambda lane: lane.register(token=5, producer="q"), ["ProducerRegistered"]),
    "claim": (lambda lane: lane.claim(2, [4]), ["SequencesClaimed"]),
    "complete": (lambda lane: lane.complete(1), ["SequencesCompleted"]),
    "release": (lambda lane: lane.settle(Verb.RELEASE, 1), ["SequencesReleased"]),
    "ack": (lambda lane: lane.ack([("p", 2)]), ["Acked"]),
    "ack a batch": (lambda lane: lane.ack(batch=1), ["Acked"]),
    "claim in a batch": (lambda lane: lane.claim_ids("b", batch=2, call=2), ["Claimed", "Scoped"]),
    "produce": (
        lambda lane: lane.produce(2, [4]),
        ["TopicCreated", "Produced", "SequencesClaimed", "SequencesCompleted"],
    ),
}
each_write = pytest.mark.parametrize("verb", WRITES)


@each_write
async def test_a_verb_and_its_repeat_wait_for_one_entry(lane: Lanes, verb: str) -> None:
    await prepared(lane)
    ask, kinds = WRITES[verb]
    lane.served.disk.hold()
    first, again = await lane.served.begin(ask(lane)), await lane.served.begin(ask(lane))
    await waits(lane, first, again)
    assert lane.served.disk.kinds() == [kinds]
    assert (first.exception(), again.exception()) == (None, None)


@each_write
async def test_requests_refused_by_the_ledger_had_no_effect_and_may_be_repeated(lane: Lanes, verb: str) -> None:
    await prepared(lane)
    ask, kinds = WRITES[verb]
    before = contents(lane.shard.journal.index.claims)
    # Requests that settle something are tried anyway: the ledger may have reserved room for them.
    lane.served.disk.faults = ["full"] * (2 if verb in ("complete", "release") else 1)
    with pytest.raises(LedgerFull):
        await ask(lane)
    assert contents(lane.shard.journal.index.claims) == before
    with pytest.raises(LedgerFull):
        await ask(lane)
    await run_ready_tasks()
    lane.served.clock.advance(PROBE_MS)
    await run_ready_tasks()
    assert lane.served.disk.kinds()[-1] == ["Probe"]
    await ask(lane)
    assert lane.served.disk.kinds()[-1] == kinds


@each_write
@pytest.mark.parametrize("fault", ["lost", "kept"])
async def test_a_reply_that_was_lost_is_asked_for_again_and_counts_once(verb: str, fault: str) -> None:
    async with lanes() as lane:
        await prepared(lane)
        ask, _ = WRITES[verb]
        lane.served.disk.faults = [fault]
        with pytest.raises(LedgerDown):
            await ask(lane)
        await reopened(lane)
        answer = await ask(lane)
        if verb in ("register driver", "register"):
            assert answer.epoch == (2 if verb == "register driver" else 1)
        if verb == "produce":
            assert verdicts_of(answer) == (["DUPLICATE+OWN"] if fault == "kept" else ["GRANTED"])
            assert await lane.served.read() == [4]
        if verb in ("claim", "claim in a batch"):
            assert verdicts_of(answer) == ["GRANTED"]
        assert lane.shard.counters()["takeovers"] == 0


async def reopened(lane: Lanes) -> None:
    """Waits until the gateway has reopened its ledger."""
    owner = lane.served.gateway._owners["default"]
    await wait_until(lambda: owner.serving is None)
    lane.served.clock.advance(60_000)
    await wait_until(lambda: owner.serving is not None)


async def test_stale_waits_for_the_ack_it_rests_on(lane: Lanes) -> None:
    await prepared(lane)
    lane.served.disk.hold()
    ack = await lane.served.begin(lane.ack([("p", 2)], batch=1))
    sequences = await lane.served.begin(lane.claim(2, [1, 2]))
    ids = await lane.served.begin(lane.claim_ids("a", batch=1, token=7))
    await waits(lane, ack, sequences, ids)
    assert verdicts_of(sequences.result()) == ["STALE", "STALE"]
    assert verdicts_of(ids.result()) == ["STALE"]


async def test_a_refused_ack_makes_nothing_stale(lane: Lanes) -> None:
    await prepared(lane)
    lane.served.disk.hold()
    ack = await lane.served.begin(lane.ack([("p", 2)], batch=1))
    sequences = await lane.served.begin(lane.claim(2, [1, 2]))
    ids = await lane.served.begin(lane.claim_ids("a", batch=1, token=7))
    lane.served.disk.faults = ["full"]
    await lane.served.disk.release()
    assert {type(task.exception()) for task in (ack, sequences, ids)} == {LedgerFull}
    assert verdicts_of(await lane.claim(3, [1, 2])) == ["DUPLICATE+OWN"] * 2
    assert verdicts_of(await lane.claim_ids("a", batch=1, token=7)) == ["DUPLICATE"]


async def test_the_next_attempt_waits_for_the_registration_that_fences_the_one_before(lane: Lanes) -> None:
    await lane.claim(0, [1])
    await lane.close()
    lane.served.disk.hold()
    registered = await lane.served.begin(lane.register(token=2))
    taken = await lane.served.begin(lane.claim(0, [1], token=2, epoch=2))
    fenced = await lane.served.begin(lane.complete(0))
    await waits(lane, registered, taken, fenced)
    assert verdicts_of(taken.result()) == ["GRANTED+TAKEOVER"]
    assert isinstance(fenced.exception(), Fenced)


async def test_a_refused_registration_fences_no_producer(lane: Lanes) -> None:
    await lane.claim(0, [1])
    await lane.close()
    lane.served.disk.faults = ["full"]
    with pytest.raises(LedgerFull):
        await lane.register(token=2)
    await run_ready_tasks()
    lane.served.clock.advance(PROBE_MS)
    await run_ready_tasks()
    assert (await lane.complete(0)).state is ClaimState.DONE


async def test_an_ack_that_is_refused_for_what_is_not_done_waits_for_what_shows_it(lane: Lanes) -> None:
    lane.served.disk.hold()
    claim = await lane.served.begin(lane.claim(0, [1]))
    ack = await lane.served.begin(lane.ack([("p", 1)]))
    await waits(lane, claim, ack)
    assert [type(error) for error in ack.result().refused] == [NotDone]


async def test_a_batch_that_is_held_back_waits_for_the_claim_that_holds_it(lane: Lanes) -> None:
    await lane.ack(batch=1)
    lane.served.disk.hold()
    other = await lane.served.begin(lane.claim(0, [1]))
    await lane.served.begin(lane.ack(batch=2))
    claim = await lane.served.begin(lane.claim_ids("a", batch=3))
    ack = await lane.served.begin(lane.ack(batch=3))
    await waits(lane, other, claim, ack)
    assert [error.extra["batch"] for error in ack.result().refused] == [3]
    lane.served.disk.hold()
    late = await lane.served.begin(lane.claim_ids("b", batch=3, token=2, call=2))
    again = await lane.served.begin(lane.ack(batch=3))
    await waits(lane, late, again)
    assert [error.extra["open_ids"] for error in again.result().refused] == [2]


async def test_busy_is_answered_at_once(lane: Lanes) -> None:
    lane.served.disk.hold()
    await lane.served.begin(lane.claim(0, [1]))
    busy = await lane.served.begin(lane.register(token=2))
    assert isinstance(busy.exception(), ProducerBusy)


async def test_rows_with_sequences_are_written_once_whatever_the_sender() -> None:
    ledgers = GatedLedgers()
    async with lanes(ledgers) as lane:
        first = await lane.produce(0, [1, 2, 3])
        again = await lane.produce(0, [1, 2, 3])
        assert (first.rows, verdicts_of(first)) == (3, ["GRANTED"] * 3)
        assert (again.rows, again.spans, verdicts_of(again)) == (0, (), ["DUPLICATE+OWN"] * 3)
        await lane.close()
    async with lanes(ledgers) as lane:
        lane.served.clock.advance(30_000)
        await lane.register(token=2)
        more = await lane.produce(0, [2, 3, 4], token=2, epoch=2)
        assert (more.rows, verdicts_of(more)) == (1, ["DUPLICATE", "DUPLICATE", "GRANTED"])
        assert await lane.served.read() == [1, 2, 3, 4]
        assert (await lane.ack([("p", 4)])).watermarks == (("p", 4),)
        assert verdicts_of(await lane.produce(1, [4, 5], token=2, epoch=2)) == ["STALE", "GRANTED"]
        assert await lane.served.read() == [1, 2, 3, 4, 5]


async def test_rows_that_an_older_epoch_had_claimed_are_written_and_counted(lane: Lanes) -> None:
    await lane.claim(0, [1, 2])
    await lane.close()
    await lane.register(token=2)
    answer = await lane.produce(0, [1, 2, 3], token=2, epoch=2)
    assert verdicts_of(answer) == ["GRANTED+TAKEOVER", "GRANTED+TAKEOVER", "GRANTED"]
    assert (await lane.served.read(), lane.shard.counters()["takeovers"]) == ([1, 2, 3], 2)


async def test_a_complete_of_leftovers_resolved_as_done_is_answered_once_that_is_durable(lane: Lanes) -> None:
    """Otherwise an answered completion could be lost in a crash, and its sequences granted again."""
    await lane.claim(0, [1, 2])
    lane.served.clock.advance(LEASE_MS)
    lane.served.disk.hold()
    found = ResolveRequest(True, "ada", "it is in the sink")
    asked = lane.namespace.operations.leftovers.of_producer("p", (None, None), found, lane.served.deadline())
    clearing, completing = await lane.served.begin(asked), await lane.served.begin(lane.complete(0))
    await waits(lane, clearing, completing)
    assert (clearing.result(), completing.result().state) == (2, ClaimState.DONE)


async def test_an_answered_renewal_counts_though_an_earlier_claim_is_refused(lane: Lanes) -> None:
    """The claim undoes its grants, but not the lease: the renewal came after it."""
    await lane.claim(0, [1])
    lane.served.clock.advance(LEASE_MS - 1)
    lane.served.disk.hold()
    claiming = await lane.served.begin(lane.claim(1, [2]))
    assert (await lane.settle(Verb.RENEW, 0)).lease_ms == LEASE_MS
    lane.served.disk.faults = ["full"]
    await lane.served.disk.release()
    with pytest.raises(LedgerFull):
        await claiming
    lane.served.clock.advance(LEASE_MS - 1)
    with pytest.raises(ProducerBusy) as raised:
        await lane.register(token=2)
    assert raised.value.extra["lease_left_ms"] == 1
