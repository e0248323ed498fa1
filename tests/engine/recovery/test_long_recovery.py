"""A namespace that does not come back is told of, with the reason, for as long as it lasts."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from oncegate.core.errors import LedgerDown, Recovering
from oncegate.engine.recovery.owner import RECOVERING_MS
from tests.support.held import Served, serving, turns, until


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with serving() as served:
        yield served


def told(served: Served) -> list[dict[str, object]]:
    return [fields for name, fields in served.events.seen if name == "recovering_long"]


async def pass_ms(served: Served, duration_ms: int) -> None:
    served.clock.advance(duration_ms)
    await turns()


async def test_whoever_recovers_for_a_minute_is_told_of_each_minute_with_the_reason(served: Served) -> None:
    served.disk.refuse_to_open = OSError(5, "Input/output error")
    served.disk.faults = ["lost"]
    with pytest.raises(LedgerDown):
        await served.claim("a")
    await turns()
    await pass_ms(served, RECOVERING_MS - 1)
    assert told(served) == []
    for minute in (1, 2):
        await pass_ms(served, 1 if minute == 1 else RECOVERING_MS)
        assert [fields["recovering_ms"] for fields in told(served)] == [n * RECOVERING_MS for n in range(1, minute + 1)]
        assert "Input/output error" in str(told(served)[-1]["reason"])


async def test_nothing_is_told_of_a_namespace_that_serves(served: Served) -> None:
    served.disk.faults = ["lost"]
    with pytest.raises(LedgerDown):
        await served.claim("a")
    await turns()
    await pass_ms(served, 250)
    await until(lambda: served.gateway.readiness()["default"] == "SERVING")
    await pass_ms(served, 3 * RECOVERING_MS)
    assert told(served) == []


async def test_a_shard_whose_append_hangs_after_its_end_is_unknown_is_told_of_at_once(served: Served) -> None:
    """The owner itself waits for the append, for an hour perhaps."""
    served.disk.hold()
    claim = await served.begin(served.claim("a"))
    served.shard.group_commit.die(LedgerDown("the disk is gone; unknown"))
    assert [fields["error"] for name, fields in served.events.seen if name == "ledger_lost"] == [
        "the disk is gone; unknown"
    ]
    assert served.gateway.readiness() == {"default": "RECOVERING"}
    with pytest.raises(Recovering):
        await served.claim("b", token=2)
    assert isinstance((await asyncio.gather(claim, return_exceptions=True))[0], LedgerDown)
    await pass_ms(served, RECOVERING_MS)
    assert [fields["reason"] for fields in told(served)] == ["the disk is gone; unknown"]
    await served.disk.let_go()
    assert served.events.names().count("ledger_lost") == 1
