"""Leases on the injected clock: renewed from now, even late; the wall clock has no effect."""

from collections.abc import AsyncIterator

import pytest

from oncegate.core.claims import ClaimState, Verb
from oncegate.core.errors import ReleasedClaim, UnknownClaim
from oncegate.index.claims.by_name import SETTLED_BYTES
from tests.support.memory_gateway import GatedLedgers, Served, id16, serving, verdicts_of

LEASE_MS = 10_000


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with serving(lease_ms=LEASE_MS) as served:
        yield served


async def test_a_lease_that_ran_out_can_be_taken_over_and_not_a_millisecond_before(served: Served) -> None:
    await served.claim("a")
    served.clock.advance(LEASE_MS - 1)
    assert verdicts_of(await served.claim("a", token=2)) == ["BUSY"]
    served.clock.advance(1)
    assert verdicts_of(await served.claim("a", token=2)) == ["GRANTED+TAKEOVER"]
    assert served.shard.counters()["takeovers"] == 1


async def test_a_renewal_gives_a_full_lease_from_now(served: Served) -> None:
    claimed = await served.claim("a")
    served.clock.advance(LEASE_MS - 1)
    assert (await served.settle(Verb.RENEW, claimed.claim)).lease_ms == LEASE_MS
    served.clock.advance(LEASE_MS - 1)
    assert verdicts_of(await served.claim("a", token=2)) == ["BUSY"]


async def test_a_late_renewal_keeps_ids_that_were_not_taken_over(served: Served) -> None:
    claimed = await served.claim("a", "b")
    served.clock.advance(LEASE_MS)
    await served.claim("b", token=2)
    renewed = await served.settle(Verb.RENEW, claimed.claim)
    assert (renewed.state, renewed.settled, renewed.taken_over) == (ClaimState.OPEN, 1, 1)
    assert verdicts_of(await served.claim("a", "b", token=3)) == ["BUSY", "BUSY"]


async def test_the_repeat_of_a_claim_renews_it(served: Served) -> None:
    claimed = await served.claim("a", lease_ms=5_000)
    served.clock.advance(4_999)
    repeated = await served.claim("a", lease_ms=5_000)
    assert (verdicts_of(repeated), repeated.claim, repeated.lease_ms) == (["GRANTED"], claimed.claim, 5_000)
    served.clock.advance(4_999)
    assert verdicts_of(await served.claim("a", token=2)) == ["BUSY"]


async def test_a_completion_leaves_what_was_taken_over_to_its_taker(served: Served) -> None:
    claimed = await served.claim("a", "b")
    served.clock.advance(LEASE_MS)
    taken = await served.claim("b", token=2)
    done = await served.settle(Verb.COMPLETE, claimed.claim)
    assert (done.state, done.settled, done.taken_over) == (ClaimState.DONE, 1, 1)
    assert verdicts_of(await served.claim("a", "b", token=3)) == ["DUPLICATE", "BUSY"]
    await served.settle(Verb.RELEASE, taken.claim)
    assert verdicts_of(await served.claim("b", token=3, call=2)) == ["GRANTED"], "no attempt has written it"


@pytest.mark.parametrize("step_ms", [-(10**9), 10**9])
async def test_a_stepped_wall_clock_moves_no_lease(served: Served, step_ms: int) -> None:
    await served.claim("a")
    served.clock.step_wall_ms(step_ms)
    assert verdicts_of(await served.claim("a", token=2)) == ["BUSY"]
    served.clock.advance(LEASE_MS)
    assert verdicts_of(await served.claim("a", token=2)) == ["GRANTED+TAKEOVER"]


async def test_claims_that_are_not_known_or_were_released_stop_their_caller(served: Served) -> None:
    claimed = await served.claim("a")
    await served.settle(Verb.RELEASE, claimed.claim)
    for verb in (Verb.RENEW, Verb.COMPLETE):
        with pytest.raises(ReleasedClaim):
            await served.settle(verb, claimed.claim)
    for verb in Verb:
        with pytest.raises(UnknownClaim):
            await served.settle(verb, id16(77))


async def test_counters_match_the_answers(served: Served) -> None:
    claimed = await served.claim("a", "b", "a")
    await served.claim("a", token=2)
    await served.settle(Verb.COMPLETE, claimed.claim)
    await served.claim("a", token=2, call=2)
    await served.claim("a", call=2)
    counters = served.shard.counters()
    expected = {"granted": 2, "same": 1, "busy": 1, "duplicates": 1, "own_duplicates": 1, "completed": 1, "released": 0}
    assert {name: counters[name] for name in expected} == expected


async def test_nothing_stays_pinned_once_it_is_durable_or_refused(served: Served) -> None:
    """Otherwise rows could never be reused."""
    claimed = await served.claim("a", "b")
    served.clock.advance(LEASE_MS)
    await served.claim("b", token=2)
    await served.settle(Verb.COMPLETE, claimed.claim)
    assert not served.shard.journal.index.claims.rows.holders.pins.any()


async def test_a_settled_claim_is_known_as_long_as_clients_retry_though_its_lease_was_short() -> None:
    ledgers = GatedLedgers()
    async with serving(ledgers) as served:
        done = await served.claim("a", lease_ms=1_000)
        await served.settle(Verb.COMPLETE, done.claim)
        served.clock.advance(served.gateway.limits.settled_claim_ms - 1)
        for other in range(3):
            await served.claim(f"other {other}", token=10 + other)
        assert (await served.settle(Verb.COMPLETE, done.claim)).state is ClaimState.DONE
    async with serving(ledgers) as served:
        served.clock.advance(served.gateway.limits.settled_claim_ms - 1)
        assert (await served.settle(Verb.COMPLETE, done.claim)).state is ClaimState.DONE
        served.clock.advance(1)
        with pytest.raises(UnknownClaim):
            await served.settle(Verb.COMPLETE, done.claim)
        assert served.shard.counters()["forgotten_early"] == 0


async def test_where_settled_claims_fill_their_memory_the_oldest_go_first_and_are_counted() -> None:
    async with serving(settled_claims_bytes=4 * SETTLED_BYTES) as served:
        claims = []
        for number in range(12):
            claims.append((await served.claim(f"id {number}", token=number, lease_ms=1_000)).claim)
            await served.settle(Verb.COMPLETE, claims[-1])
        assert (await served.settle(Verb.COMPLETE, claims[0])).state is ClaimState.DONE, (
            "within two leases all are known"
        )
        served.clock.advance(2_000)
        await served.claim("another", token=99)
        assert served.shard.counters()["forgotten_early"] == 8
        for claim in claims[:8]:
            with pytest.raises(UnknownClaim):
                await served.settle(Verb.COMPLETE, claim)
        for claim in claims[8:]:
            assert (await served.settle(Verb.COMPLETE, claim)).state is ClaimState.DONE
