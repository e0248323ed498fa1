"""An id that all callers ask for, and one tenant that sends as much as it can: the cost for each, and for others."""

import asyncio

import pytest

from oncegate.core.errors import QuotaExceeded
from tests.support.memory_gateway import serving, verdicts_of

CALLERS = 200


async def test_one_id_that_many_ask_for_at_once_is_one_claim_and_one_entry() -> None:
    async with serving() as served:
        asked = [served.claim("hot", token=n) for n in range(1, CALLERS + 1)]
        found = [verdicts_of(one) for one in await asyncio.gather(*asked)]
        assert found.count(["GRANTED"]) == 1
        assert found.count(["BUSY"]) == CALLERS - 1
        assert sum(map(len, served.disk.appends)) == 1
        assert served.shard.counters()["ids"] == 1


async def test_a_hot_namespace_that_is_refused_by_its_quota_is_appended_and_decided_nothing_of() -> None:
    """Other namespaces wait only for requests that pass: here one of many."""
    async with serving(ids_per_second=1) as served:
        await served.gateway.create("calm")
        served.disk.appends.clear()
        asked = [served.claim(f"hot {n}", f"more {n}", token=n) for n in range(1, CALLERS + 1)]
        found = await asyncio.gather(*asked, return_exceptions=True)
        assert sum(isinstance(one, QuotaExceeded) for one in found) == CALLERS - 1
        assert sum(map(len, served.disk.appends)) == 1
        calm = served.gateway.namespace("calm")
        calm.rates.take_ids(1)
        with pytest.raises(QuotaExceeded):
            served.namespace.rates.take_ids(1)
