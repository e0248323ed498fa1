"""Quotas of a tenant whose claims are batched with others', and the tenants that are remembered."""

import asyncio

import pytest

from oncegate.core.errors import QuotaExceeded, SettingsError
from oncegate.engine.counts.counts import Counts
from oncegate.engine.limits import Limits
from oncegate.engine.quotas import NEVER_REFUSED_BYTES, TENANTS_MAX, Rates, Tenants
from oncegate.settings import load
from oncegate.testing.clock import FakeClock
from tests.support.memory_gateway import Served, serving, verdicts_of

HERE = frozenset({"default"})
REFUSED = "2 claims of this tenant are open "


async def claim(served: Served, name: str | None, token: int) -> list[str]:
    tenant = None if name is None else served.gateway.tenants.of((name, HERE))
    try:
        return verdicts_of(await served.claim(f"id {token}", token=token, tenant=tenant))
    except QuotaExceeded as error:
        return [error.detail[:33]]


async def test_claims_that_are_decided_at_once_are_each_their_tenants() -> None:
    """Each is a task with a tenant of its own, and all are decided in a turn that belongs to none of them."""
    async with serving(tenant_open_claims=2) as served:
        names = [None, "a", None, "a", "a"]
        found = await asyncio.gather(*(asyncio.create_task(claim(served, one, n)) for n, one in enumerate(names)))
        assert served.shard.counters()["open_claims"] >= 2
        assert found.count([REFUSED]) == served.shard.counters()["refused_by_tenant_open_claims"]
        assert [one for one, name in zip(found, names, strict=True) if name is None] == [["GRANTED"]] * 2
        assert [REFUSED] in [one for one, name in zip(found, names, strict=True) if name == "a"]


async def test_of_many_claims_at_once_no_more_are_granted_than_the_tenant_may_have_open() -> None:
    async with serving(tenant_open_claims=2) as served:
        found = await asyncio.gather(*(asyncio.create_task(claim(served, "a", n)) for n in range(8)))
        assert sorted(found) == [[REFUSED]] * 6 + [["GRANTED"]] * 2
        assert served.shard.counters()["open_claims"] == 2


def test_requests_refused_by_a_tenants_rate_consume_nothing_of_its_namespaces() -> None:
    clock, limits = (
        FakeClock(),
        Limits(ids_per_second=10, bytes_per_second=10, tenant_ids_per_second=1, tenant_bytes_per_second=1),
    )
    rates, tenants = Rates(limits, clock, Counts().add), Tenants(limits, clock, lambda _: 0)
    tenant = tenants.of(("a", HERE))
    rates.take_ids(1, tenant)
    rates.take_bytes(1, tenant)
    for take, count in ((rates.take_ids, 9), (rates.take_bytes, NEVER_REFUSED_BYTES + 1)):
        with pytest.raises(QuotaExceeded, match="this tenant"):
            take(count, tenant)
    for take in (rates.take_ids, rates.take_bytes):
        take(9)
        with pytest.raises(QuotaExceeded, match="this namespace"):
            take(NEVER_REFUSED_BYTES + 1)


def test_requests_refused_by_a_namespaces_rate_consume_nothing_of_its_tenants() -> None:
    clock, limits = FakeClock(), Limits(ids_per_second=10, tenant_ids_per_second=10)
    full, empty = (Rates(limits, clock, Counts().add) for _ in range(2))
    tenant = Tenants(limits, clock, lambda _: 0).of(("a", HERE))
    assert tenant is not None
    full.take_ids(10)
    with pytest.raises(QuotaExceeded, match="this namespace"):
        full.take_ids(10, tenant)
    empty.take_ids(1, tenant)
    assert tenant.ids.wait_ms() == 0


def test_without_tenant_quotas_no_tenant_is_remembered_and_with_them_a_limited_number() -> None:
    assert Tenants(Limits(), FakeClock(), lambda _: 0).of(("a", HERE)) is None
    tenants = Tenants(Limits(tenant_ids_per_second=1), FakeClock(), lambda _: 0)
    assert tenants.of(None) is None
    for n in range(TENANTS_MAX + 1):
        found = tenants.of((f"tenant {n}", HERE))
        assert found is not None
        found.ids.take(100)
    newest, oldest = (tenants.of((f"tenant {n}", HERE)) for n in (TENANTS_MAX, 0))
    assert newest is not None
    assert oldest is not None
    assert (newest.ids.wait_ms() > 0, oldest.ids.wait_ms()) == (True, 0)


@pytest.mark.parametrize("name", ["tenant_ids_per_second", "tenant_open_claims", "tenant_namespaces"])
def test_a_quota_of_tenants_below_zero_is_none(name: str) -> None:
    with pytest.raises(SettingsError, match="quotas of tenants are 0"):
        load(**{name: -1})
