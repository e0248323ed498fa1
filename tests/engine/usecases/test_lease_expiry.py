"""Expired leases by the namespace's setting: taken over, held, or in doubt, for every verb."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pyarrow as pa
import pytest

from oncegate.core.claims import ClaimState, LeaseExpiry, Verb
from oncegate.core.errors import LedgerFull
from oncegate.engine.producer_requests import ResolveRequest
from oncegate.engine.requests import ProduceRequest, SettingsRequest, TakeRequest
from tests.support.memory_gateway import GatedLedgers, Served, id16, rows_of, serving, verdicts_of, wait_until
from tests.support.producing_lanes import lanes

LEASE_MS = 10_000
HOLD, FAIL = SettingsRequest(lease_expiry=LeaseExpiry.HOLD), SettingsRequest(lease_expiry=LeaseExpiry.FAIL)
TOLD = {LeaseExpiry.HOLD: "BUSY", LeaseExpiry.FAIL: "IN_DOUBT"}
no_takeover = pytest.mark.parametrize("expiry", list(TOLD))


@asynccontextmanager
async def expired(expiry: LeaseExpiry) -> AsyncIterator[tuple[Served, Any]]:
    """Yields a gateway with this setting, and an expired claim of "a" by token 1."""
    async with serving(lease_ms=LEASE_MS) as served:
        await served.namespace.settings.configure(SettingsRequest(lease_expiry=expiry), served.deadline())
        claimed = await served.claim("a")
        served.clock.advance(LEASE_MS)
        yield served, claimed


async def produce(served: Served, token: int) -> list[str]:
    prints = served.namespace.fingerprints().of_array(pa.array(["a"]))
    ask = ProduceRequest("topic", id16(token), 1, rows_of(1), prints)
    return verdicts_of(await served.namespace.records.produce(ask, served.deadline()))


async def take(served: Served) -> list[str]:
    prints = served.namespace.fingerprints().of_array(pa.array(["a"]))
    return verdicts_of(await served.shard.claims.take(TakeRequest(id16(9), prints), served.deadline()))


@no_takeover
async def test_an_expired_id_is_not_granted_by_any_verb(expiry: LeaseExpiry) -> None:
    async with expired(expiry) as (served, _):
        told = [TOLD[expiry]]
        assert verdicts_of(await served.claim("a", token=2)) == told
        assert await produce(served, token=3) == told
        assert await take(served) == told
        counted = served.shard.counters()
        name = "held" if expiry is LeaseExpiry.HOLD else "in_doubt"
        assert (counted["takeovers"], counted[name], counted["busy"]) == (0, 3, 0)
        assert (await served.namespace.topics.view("topic")).high_offsets == [0]


@no_takeover
async def test_claims_decided_together_are_answered_like_one_alone(expiry: LeaseExpiry) -> None:
    async with expired(expiry) as (served, _):
        together = [served.start(served.claim("a", f"new {n}", token=n)) for n in range(2, 6)]
        assert [verdicts_of(await one) for one in together] == [[TOLD[expiry], "GRANTED"]] * 4


@no_takeover
async def test_a_holder_that_was_only_slow_continues_as_before(expiry: LeaseExpiry) -> None:
    async with expired(expiry) as (served, held):
        assert verdicts_of(await served.claim("a")) == ["GRANTED"], "the repeat of its own claim"
        served.clock.advance(LEASE_MS)
        renewed = await served.settle(Verb.RENEW, held.claim)
        assert (renewed.state, renewed.settled, renewed.taken_over) == (ClaimState.OPEN, 1, 0)
        assert verdicts_of(await served.claim("a", token=2)) == ["BUSY"], "its lease lives again"
        served.clock.advance(LEASE_MS)
        await served.settle(Verb.COMPLETE, held.claim)
        assert verdicts_of(await served.claim("a", token=2, call=2)) == ["DUPLICATE"]


@no_takeover
@pytest.mark.parametrize(("is_done", "then"), [(True, "DUPLICATE"), (False, "GRANTED")])
async def test_a_person_who_has_looked_resolves_it(expiry: LeaseExpiry, is_done: bool, then: str) -> None:
    async with expired(expiry) as (served, held):
        found = ResolveRequest(is_done, "ada", "looked into the sink")
        assert await served.namespace.operations.leftovers.of_claim(held.claim, found, served.deadline()) == 1
        assert verdicts_of(await served.claim("a", token=2)) == [then]


@no_takeover
async def test_it_outlives_the_process_and_a_snapshot(expiry: LeaseExpiry) -> None:
    ledgers = GatedLedgers()
    async with serving(ledgers, lease_ms=LEASE_MS) as served:
        await served.namespace.settings.configure(SettingsRequest(lease_expiry=expiry), served.deadline())
        await served.claim("a")
    for compacts in (True, False):
        async with serving(ledgers, lease_ms=LEASE_MS, collect_bytes=1) as served:
            assert served.namespace.settings.lease_expiry is expiry
            served.clock.advance(LEASE_MS)
            assert verdicts_of(await served.claim("a", token=2, call=int(compacts))) == [TOLD[expiry]]
            if compacts:
                await served.settle(Verb.RELEASE, (await served.claim("b", token=3)).claim)
                served.shard.scheduler.compact()
                await wait_until(lambda shard=served.shard: not shard.snapshotter.compacting)
                assert served.shard.marks.compacted_to > 0


async def test_a_setting_that_the_ledger_refused_is_not_in_force() -> None:
    async with serving(lease_ms=LEASE_MS) as served:
        claimed = await served.claim("a")
        assert claimed.claim is not None
        served.clock.advance(LEASE_MS)
        served.disk.faults = ["full"]
        with pytest.raises(LedgerFull):
            await served.namespace.settings.configure(HOLD, served.deadline())
        assert served.namespace.settings.lease_expiry is LeaseExpiry.TAKEOVER
        with pytest.raises(LedgerFull):
            await served.claim("a", token=2)  # a takeover that finds no room


async def test_other_settings_leave_it_as_it_is_and_takeover_brings_takeovers_back() -> None:
    async with expired(LeaseExpiry.FAIL) as (served, _):
        await served.namespace.settings.configure(SettingsRequest(auto_create_topics=False), served.deadline())
        assert verdicts_of(await served.claim("a", token=2)) == ["IN_DOUBT"]
        await served.namespace.settings.configure(SettingsRequest(lease_expiry=LeaseExpiry.TAKEOVER), served.deadline())
        assert verdicts_of(await served.claim("a", token=2, call=2)) == ["GRANTED+TAKEOVER"]


@no_takeover
async def test_leftovers_of_an_older_epoch_are_not_granted_and_a_person_resolves_them(expiry: LeaseExpiry) -> None:
    async with lanes(lease_ms=LEASE_MS) as lane:
        await lane.namespace.settings.configure(SettingsRequest(lease_expiry=expiry), lane.served.deadline())
        await lane.claim(0, [1, 2])
        await lane.close()
        await lane.register(token=2)
        told = TOLD[expiry]
        assert verdicts_of(await lane.claim(0, [1, 2, 3], token=2, epoch=2)) == [told, told, "GRANTED"]
        assert verdicts_of(await lane.produce(1, [2, 4], token=2, epoch=2)) == [told, "GRANTED"]
        assert await lane.served.read() == [4]
        found = ResolveRequest(True, "ada", "looked into the sink")
        await lane.namespace.operations.leftovers.of_producer("p", (1, 2), found, lane.served.deadline())
        assert verdicts_of(await lane.claim(2, [1, 2], token=2, epoch=2)) == ["DUPLICATE", "DUPLICATE"]
