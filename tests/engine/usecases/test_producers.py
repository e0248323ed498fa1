"""Producers and drivers at the engine: registration, order, settling, acks; a refusal changes nothing."""

from collections.abc import AsyncIterator, Awaitable, Callable

import numpy as np
import pytest

from oncegate.core.claims import ClaimState, Verb
from oncegate.core.errors import (
    BadRequest,
    Fenced,
    Gap,
    NotFound,
    OtherDriver,
    OutOfOrder,
    Overloaded,
    ProducerBusy,
    ReleasedClaim,
    TokenReused,
    TooLarge,
    UnknownClaim,
    UnknownProducer,
)
from oncegate.index.producers.decide import decide
from oncegate.index.producers.store import DONE_INTERVALS_MAX
from tests.support.memory_gateway import GatedLedgers, rows_of, verdicts_of
from tests.support.producing_lanes import Lanes, lanes

LEASE_MS = 30_000


@pytest.fixture
async def lane() -> AsyncIterator[Lanes]:
    async with lanes() as found:
        yield found


async def test_the_same_token_has_the_same_epoch_and_writes_nothing_more(lane: Lanes) -> None:
    assert (await lane.register()).epoch == 1
    assert (await lane.driver()).epoch == 1
    assert lane.served.disk.appends == []


async def test_a_live_lease_is_respected_and_the_answer_has_its_remaining_time(lane: Lanes) -> None:
    lane.served.clock.advance(10_000)
    with pytest.raises(ProducerBusy) as refused:
        await lane.register(token=2)
    left_ms = LEASE_MS - 10_000
    assert refused.value.extra == {"lease_left_ms": left_ms, "retry_after_ms": left_ms}
    lane.served.clock.advance(LEASE_MS - 10_000)
    assert (await lane.register(token=2)).epoch == 2


async def test_closing_frees_the_producer_at_once(lane: Lanes) -> None:
    await lane.close()
    assert (await lane.register(token=2)).epoch == 2


@pytest.mark.parametrize("by", ["claim", "renew", "register"])
async def test_an_active_producer_keeps_the_lease(lane: Lanes, by: str) -> None:
    await lane.claim(0, [1])
    lane.served.clock.advance(LEASE_MS - 1)
    if by == "claim":
        await lane.claim(1, [1, 2])
    elif by == "renew":
        assert (await lane.settle(Verb.RENEW, 0)).lease_ms == LEASE_MS
    else:
        await lane.register()
    lane.served.clock.advance(LEASE_MS - 1)
    with pytest.raises(ProducerBusy):
        await lane.register(token=2)


async def test_a_claim_without_news_keeps_the_lease_too(lane: Lanes) -> None:
    await lane.claim(0, [1])
    lane.served.clock.advance(LEASE_MS - 1)
    assert verdicts_of(await lane.claim(0, [1])) == ["GRANTED"]
    lane.served.clock.advance(1)
    with pytest.raises(ProducerBusy):
        await lane.register(token=2)


async def test_a_late_copy_of_a_registration_does_not_fence_who_followed(lane: Lanes) -> None:
    await lane.close()
    await lane.register(token=2)
    await lane.close(token=2, epoch=2)
    with pytest.raises(Fenced):
        await lane.register(token=1)
    assert (await lane.register(token=2)).epoch == 2


async def test_the_newest_driver_wins_at_once_and_an_older_one_stays_behind(lane: Lanes) -> None:
    assert (await lane.driver(token=91)).epoch == 2
    with pytest.raises(Fenced, match="after this one"):
        await lane.driver()
    with pytest.raises(Fenced, match="epoch 2"):
        await lane.ack(batch=1)


async def test_a_producer_is_one_drivers_for_ever(lane: Lanes) -> None:
    with pytest.raises(OtherDriver, match="belongs to driver d, not e"):
        await lane.register(token=2, driver="e")
    await lane.driver(name="e")
    await lane.claim(0, [1])
    assert verdicts_of(await lane.claim(1, [2])) == ["GRANTED"]


@pytest.mark.parametrize("epoch_token", [(2, 1), (1, 7)], ids=["epoch never given", "token of nobody"])
async def test_only_the_epoch_in_force_and_its_token_claim_settle_and_close(
    lane: Lanes, epoch_token: tuple[int, int]
) -> None:
    epoch, token = epoch_token
    refusal = UnknownProducer if epoch == 2 else Fenced
    await lane.claim(0, [1])
    for ask in (
        lane.claim(1, [2], token=token, epoch=epoch),
        lane.complete(0, token=token, epoch=epoch),
        lane.close(token=token, epoch=epoch),
    ):
        with pytest.raises(refusal):
            await ask
    assert lane.served.disk.kinds() == [["SequencesClaimed"]]


async def test_an_older_epoch_never_completes(lane: Lanes) -> None:
    await lane.claim(0, [1, 2])
    await lane.close()
    await lane.register(token=2)
    with pytest.raises(Fenced):
        await lane.complete(0)
    assert verdicts_of(await lane.claim(0, [1, 2], token=2, epoch=2)) == ["GRANTED+TAKEOVER", "GRANTED+TAKEOVER"]
    assert lane.shard.counters()["takeovers"] == 2


async def test_registering_returns_where_to_continue(lane: Lanes) -> None:
    await lane.claim(0, [1, 2, 3])
    await lane.complete(0)
    await lane.claim(1, [4, 5])
    await lane.claim(2, [6, 7])
    await lane.complete(2)
    await lane.ack([("p", 2)])
    await lane.close()
    found = await lane.register(token=2, lease_ms=5_000)
    assert (found.producer_id, found.epoch, found.lease_ms) == (1, 2, 5_000)
    assert (found.watermark, found.claimed_to, found.resume_after) == (2, 7, 3)
    assert (found.done.tolist(), found.truncated) == ([[3, 3], [6, 7]], False)


async def test_of_very_many_intervals_the_newest_are_returned(lane: Lanes) -> None:
    await lane.claim(0, range(0, 2 * DONE_INTERVALS_MAX + 2, 2))
    await lane.complete(0)
    found = await lane.register()
    assert (len(found.done), found.truncated) == (DONE_INTERVALS_MAX, True)
    assert found.done[-1].tolist() == [2 * DONE_INTERVALS_MAX, 2 * DONE_INTERVALS_MAX]
    assert found.resume_after == 2 * DONE_INTERVALS_MAX


async def test_skipped_sequences_stop_the_lane_and_change_nothing(lane: Lanes) -> None:
    await lane.claim(0, [10, 11])
    with pytest.raises(Gap, match="is 15, and the highest that was ever claimed of producer p is 11") as gap:
        await lane.claim(1, [16], prev=15)
    assert gap.value.extra == {"prev_sequence": 15, "claimed_to": 11}
    with pytest.raises(OutOfOrder, match=r"sequence 5 .*, and 11 was") as order:
        await lane.claim(1, [5, 12], prev=4)
    assert order.value.extra == {"sequence": 5, "claimed_to": 11}
    for way in ("before any shuffle", "ids:claim", "id_col", "batches:stage"):
        assert way in order.value.detail
    assert verdicts_of(await lane.claim(1, [12], prev=11)) == ["GRANTED"]


async def test_the_first_claim_of_a_lane_may_begin_anywhere_unless_it_names_the_previous_one(lane: Lanes) -> None:
    with pytest.raises(Gap, match="is nothing"):
        await lane.claim(0, [100], prev=99)
    assert verdicts_of(await lane.claim(0, [100])) == ["GRANTED"]


@pytest.mark.parametrize(
    ("sequences", "prev", "error"),
    [
        ([2, 2], None, "sequence 2 follows 2"),
        ([3, 1], None, "sequence 1 follows 3"),
        ([2**64 - 1], None, "the highest is"),
        ([5], 5, "prev_sequence 5 does not lie before"),
    ],
    ids=["twice", "back", "too high", "prev"],
)
async def test_sequences_that_are_none_are_refused_before_any_effect(
    lane: Lanes, sequences: list[int], prev: int | None, error: str
) -> None:
    with pytest.raises(BadRequest, match=error):
        await lane.claim(0, sequences, prev)
    assert lane.served.disk.appends == []


@pytest.mark.parametrize(
    "refused",
    [
        lambda lane: lane.register(token=5, producer=""),
        lambda lane: lane.register(token=5, lease_ms=999),
        lambda lane: lane.claim(0, [1], lease_ms=900_001),
        lambda lane: lane.driver(name=""),
        lambda lane: lane.ack(batch=2**64 - 1),
    ],
    ids=["no name", "short lease", "long lease", "no driver's name", "batch"],
)
async def test_what_cannot_be_is_refused_before_any_effect(
    lane: Lanes, refused: Callable[[Lanes], Awaitable[object]]
) -> None:
    with pytest.raises(BadRequest):
        await refused(lane)
    assert lane.served.disk.appends == []


async def test_limits_are_kept() -> None:
    async with lanes(producers=1, drivers=1, ids_per_request=3, intervals=3, name_bytes=4) as lane:
        for asked in (
            lane.register(producer="q"),
            lane.driver(name="e"),
            lane.driver(name="ééé"),
            lane.claim(0, [1, 2, 3, 4]),
            lane.ack([("p", 1), ("p", 2)]),
        ):
            with pytest.raises(TooLarge):
                await asked
        await lane.claim(0, [1, 3, 5])
        with pytest.raises(Overloaded, match="4 separate ranges, 3 at most"):
            await lane.claim(1, [7])
        await lane.complete(0)
        await lane.ack([("p", 5)])
        assert verdicts_of(await lane.claim(1, [7])) == ["GRANTED"]


async def test_a_call_is_settled_as_a_claim_is(lane: Lanes) -> None:
    await lane.claim(0, [1, 2])
    done = await lane.complete(0)
    assert (done.state, done.settled, done.lease_ms) == (ClaimState.DONE, 2, 0)
    for verb in Verb:
        assert (await lane.settle(verb, 0)).state is ClaimState.DONE
    await lane.claim(1, [3])
    for _ in range(2):
        assert (await lane.settle(Verb.RELEASE, 1)).state is ClaimState.RELEASED
    with pytest.raises(ReleasedClaim):
        await lane.complete(1)
    with pytest.raises(UnknownClaim):
        await lane.complete(2)
    assert verdicts_of(await lane.claim(2, [1, 3])) == ["DUPLICATE+OWN", "GRANTED"]


async def test_a_late_copy_of_a_call_that_was_granted_nothing_is_granted_nothing(lane: Lanes) -> None:
    await lane.claim(0, [1])
    assert verdicts_of(await lane.claim(1, [1])) == ["SAME+OF_CALL"]
    await lane.settle(Verb.RELEASE, 0)
    assert verdicts_of(await lane.claim(1, [1])) == ["BUSY"]
    assert verdicts_of(await lane.claim(2, [1])) == ["GRANTED"]


async def test_a_call_with_other_sequences_is_refused(lane: Lanes) -> None:
    await lane.claim(0, [1])
    with pytest.raises(TokenReused):
        await lane.claim(0, [1, 2])


async def test_explain_returns_what_is_known(lane: Lanes) -> None:
    await lane.claim(0, [1, 2])
    await lane.complete(0)
    await lane.claim(1, [3, 5])
    await lane.ack([("p", 1)])
    lane.served.clock.advance(1_000)
    view = await lane.shard.producers.explain("p")
    assert (view.producer, view.driver, view.epoch, view.token) == ("p", "d", 1, (1).to_bytes(16, "big"))
    assert (view.lease_ms, view.lease_left_ms) == (LEASE_MS, LEASE_MS - 1_000)
    assert (view.watermark, view.claimed_to, view.resume_after) == (1, 5, 2)
    assert (view.done.tolist(), view.open.tolist()) == ([[2, 2]], [[3, 3], [5, 5]])
    with pytest.raises(NotFound, match="no producer nobody"):
        await lane.shard.producers.explain("nobody")


async def test_after_a_restart_the_holder_has_a_full_lease_and_its_claims() -> None:
    ledgers = GatedLedgers()
    async with lanes(ledgers) as lane:
        await lane.claim(0, [1, 2], lease_ms=5_000)
        await lane.close()
    async with lanes(ledgers) as lane:
        with pytest.raises(ProducerBusy) as busy:
            await lane.register(token=2)
        assert busy.value.extra == {"lease_left_ms": 5_000, "retry_after_ms": 5_000}
        assert verdicts_of(await lane.claim(0, [1, 2])) == ["GRANTED", "GRANTED"]
        assert (await lane.complete(0)).settled == 2


async def test_a_compacted_ledger_has_the_same_producers(lane: Lanes) -> None:
    await lane.claim(0, [1, 2])
    await lane.complete(0)
    await lane.claim(1, [3])
    await lane.ack([("p", 1)], batch=2)
    index = lane.shard.journal.index
    loaded = type(index)()
    for position, saved in enumerate(index.snapshot(), 1):
        loaded.replayed(position, saved)
    producer = loaded.producers.producers["p"]
    assert (producer.epoch, producer.watermark, producer.claimed_to) == (1, 1, 3)
    decision = decide(loaded.producers, producer, 5, bytes(16), np.array([1, 2, 3], np.uint64), None)
    assert [int(byte) & 0xF for byte in decision.verdicts] == [5, 2, 3]
    assert loaded.producers.drivers["d"].batches == 3


async def test_rows_and_their_sequences_are_as_many(lane: Lanes) -> None:
    with pytest.raises(BadRequest, match="2 sequences for 1 rows"):
        await lane.produce(0, [1, 2], rows_of(1))
    assert lane.served.disk.appends == []
