"""Look-ups in the engine: they wait for durability, and they are bounded."""

from collections.abc import AsyncIterator

import pytest

from oncegate.core.claims import Verb
from oncegate.core.errors import LedgerFull, TooLarge
from oncegate.engine.requests import ClaimResult, LookUpRequest
from tests.support.located import ids_of
from tests.support.memory_gateway import Served, serving, verdicts_of


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with serving(ids_per_request=3) as served:
        yield served


async def look_up(served: Served, *ids: int) -> ClaimResult:
    return await served.shard.claims.look_up(LookUpRequest(ids_of(served, ids)), served.deadline())


async def claimed(served: Served, number: int) -> bytes | None:
    return (await served.claim(str(number))).claim


async def test_an_answer_waits_until_what_it_rests_on_is_durable(served: Served) -> None:
    held = await claimed(served, 1)
    served.disk.hold()
    releasing = await served.begin(served.settle(Verb.RELEASE, held))
    asking = await served.begin(look_up(served, 1))
    assert not asking.done(), "free only once the release is durable"
    await served.disk.release()
    assert verdicts_of(await asking) == ["FREE"]
    await releasing


async def test_ids_refused_by_a_full_disk_are_not_reported(served: Served) -> None:
    held = await claimed(served, 1)
    served.disk.hold()
    served.disk.faults.append("full")
    releasing = await served.begin(served.settle(Verb.RELEASE, held))
    asking = await served.begin(look_up(served, 1))
    await served.disk.release()
    for refused in (releasing, asking):
        with pytest.raises(LedgerFull):
            await refused
    assert verdicts_of(await look_up(served, 1)) == ["BUSY"]


async def test_more_ids_than_the_limit_are_refused_by_the_engine_itself(served: Served) -> None:
    assert verdicts_of(await look_up(served, 1, 2, 3)) == ["FREE"] * 3
    with pytest.raises(TooLarge):
        await look_up(served, 1, 2, 3, 4)


async def test_a_look_up_without_ids_returns_nothing_and_writes_nothing(served: Served) -> None:
    assert verdicts_of(await look_up(served)) == []
    assert served.disk.appends == []
