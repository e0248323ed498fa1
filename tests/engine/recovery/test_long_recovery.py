"""A namespace that does not recover is logged with the reason until it does."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from oncegate.core.errors import LedgerDown, Recovering
from oncegate.core.lifecycle import Event
from oncegate.engine.recovery.owner import EVICTION_MS, RECOVERING_MS
from tests.support.memory_gateway import Served, run_ready_tasks, serving, wait_until


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with serving() as served:
        yield served


def long_recoveries(served: Served) -> list[dict[str, object]]:
    return [fields for name, fields in served.events.seen if name == "recovering_long"]


async def pass_ms(served: Served, duration_ms: int) -> None:
    served.clock.advance(duration_ms)
    await run_ready_tasks()


async def test_a_recovery_of_minutes_is_logged_each_minute_with_the_reason(served: Served) -> None:
    served.disk.refuse_to_open = OSError(5, "Input/output error")
    served.disk.faults = ["lost"]
    with pytest.raises(LedgerDown):
        await served.claim("a")
    await run_ready_tasks()
    for minute in (0, 1, 2):
        assert [fields["recovering_ms"] for fields in long_recoveries(served)] == [
            n * RECOVERING_MS for n in range(1, minute + 1)
        ]
        assert all("Input/output error" in str(fields["reason"]) for fields in long_recoveries(served))
        for _ in range(RECOVERING_MS // EVICTION_MS):
            await pass_ms(served, EVICTION_MS)


async def test_nothing_is_logged_for_a_namespace_that_serves(served: Served) -> None:
    served.disk.faults = ["lost"]
    with pytest.raises(LedgerDown):
        await served.claim("a")
    await run_ready_tasks()
    await pass_ms(served, 250)
    await wait_until(lambda: served.gateway.readiness()["default"] == "SERVING")
    await pass_ms(served, 3 * RECOVERING_MS)
    assert long_recoveries(served) == []


async def test_a_shard_whose_append_hangs_after_an_unknown_outcome_is_logged_at_once(served: Served) -> None:
    """The owner itself waits for the append, possibly for an hour."""
    served.disk.hold()
    claim = await served.begin(served.claim("a"))
    served.shard.group_commit.write_end(Event.FAILED, LedgerDown("the disk is gone; unknown"))
    assert [fields["error"] for name, fields in served.events.seen if name == "ledger_lost"] == [
        "the disk is gone; unknown"
    ]
    assert served.gateway.readiness() == {"default": "RECOVERING"}
    with pytest.raises(Recovering):
        await served.claim("b", token=2)
    assert isinstance((await asyncio.gather(claim, return_exceptions=True))[0], LedgerDown)
    await pass_ms(served, RECOVERING_MS)
    assert [fields["reason"] for fields in long_recoveries(served)] == ["the disk is gone; unknown"]
    await served.disk.release()
    assert served.events.names().count("ledger_lost") == 1


async def test_upkeep_that_raised_is_logged_and_continues(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(duration_ms: int) -> None:
        raise RuntimeError("planted here")

    await run_ready_tasks()
    with monkeypatch.context() as patched:
        patched.setattr(served.clock, "sleep_ms", broken)
        await pass_ms(served, EVICTION_MS)
    assert [str(fields["error"]) for _, fields in served.events.seen] == ["RuntimeError('planted here')"]
    assert served.clock.sleepers == 0
    await wait_until(lambda: served.clock.sleepers == 1)
