"""The witness's disk fails: callers get the results in the tables of `core.lifecycle`, on the real log ledger."""

import asyncio
import errno
import threading
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from oncegate.core.errors import LedgerDown, Recovering
from oncegate.core.lifecycle import AFTER, ENDS, ROWS, AppendOutcome, Callers, Event, Reopen, State, is_taken
from oncegate.engine.gateway import open_gateway
from oncegate.engine.recovery.owner import EVICTION_MS, REOPEN_MS
from oncegate.ledgers.log import ledgers as log_ledgers
from oncegate.ledgers.log import open_log
from oncegate.runs.local import LocalRunFolders
from oncegate.testing import FakeClock
from tests.support.ledger_tools import FailingDisk
from tests.support.memory_gateway import Events, GatedLedgers, Served, verdicts_of, wait_until


class Held:
    """Blocks the disk at one call until `goes_on` is set, then returns the error, if any."""

    def __init__(self, call: str, suffix: str, error: int | None) -> None:
        self._call, self._suffix, self._error = call, suffix, error
        self.came, self.goes_on = threading.Event(), threading.Event()

    def __call__(self, call: str, path: Path) -> int | None:
        if call != self._call or path.suffix != self._suffix or self.came.is_set():
            return None
        self.came.set()
        self.goes_on.wait(20)
        return self._error


@asynccontextmanager
async def serving_with_witness(folder: Path, disk: FailingDisk) -> AsyncIterator[Served]:
    clock, events = FakeClock(), Events()
    async with (
        open_log(str(folder / "data"), create=True, witness=str(folder / "witness"), disk=disk) as ledgers,
        open_gateway(ledgers, LocalRunFolders(folder / "data", disk), clock, events) as gateway,
    ):
        yield Served(gateway, GatedLedgers(), clock, events)


def outcome(call: "asyncio.Task[Any]") -> AppendOutcome:
    error = call.exception()
    if error is None:
        return AppendOutcome.DURABLE
    assert isinstance(error, LedgerDown), error
    return AppendOutcome.UNKNOWN if "unknown" in error.detail else AppendOutcome.NOT_WRITTEN


async def begun(call: Coroutine[Any, Any, Any], served: Served, queued: int) -> "asyncio.Task[Any]":
    task = asyncio.create_task(call)
    await wait_until(lambda: served.shard.group_commit.queued[0] == queued)
    return task


async def check_as_the_tables_have_it(
    served: Served, event: Event, in_flight: "asyncio.Task[Any]", waiting: "asyncio.Task[Any]"
) -> None:
    """Compares the fate of callers in flight, waiting and new, and of the ledger, with the rows of an event."""
    (owner,) = served.gateway.owners()
    after, end = AFTER[State.SERVING, event].effect, ENDS[event].effect
    await wait_until(lambda: in_flight.done() and waiting.done())
    assert (outcome(in_flight), outcome(waiting)) == (end.in_flight, end.waiting)
    assert owner.life is after
    assert ROWS[after].effect.callers is Callers.AGAIN
    assert not is_taken(after, begins=False)
    with pytest.raises(Recovering):
        served.gateway.namespace("default")
    assert end.reopen is Reopen.SOON


async def serves_again(served: Served) -> None:
    (owner,) = served.gateway.owners()
    opened = owner.opened

    def again() -> bool:
        served.clock.advance(REOPEN_MS)
        return owner.opened > opened

    await wait_until(again)


async def test_a_witness_that_fails_in_an_append_leaves_its_callers_what_the_row_of_unknown_has(tmp_path: Path) -> None:
    disk = FailingDisk()
    async with serving_with_witness(tmp_path, disk) as served:
        disk.fails = held = Held("write", ".witness", errno.EIO)
        in_flight = asyncio.create_task(served.claim("a"))
        await wait_until(held.came.is_set)
        waiting = await begun(served.claim("b", token=2), served, 1)
        held.goes_on.set()
        await check_as_the_tables_have_it(served, Event.UNKNOWN, in_flight, waiting)
        disk.fails = lambda call, path: None
        await serves_again(served)
        assert verdicts_of(await served.claim("a")) == ["GRANTED"], "who comes again gets the same answer"
        assert verdicts_of(await served.claim("a", token=3)) == ["BUSY"], (
            "its frame was durable before the witness failed"
        )
        assert verdicts_of(await served.claim("b", token=3)) == ["GRANTED"], "what waited was not written"


async def test_a_witness_that_fails_between_appends_leaves_its_callers_what_the_row_of_ended_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_ledgers, "WITNESS_SYNC_S", 0.01)
    disk = FailingDisk()
    async with serving_with_witness(tmp_path, disk) as served:
        disk.fails = sync = Held("sync", ".witness", errno.EIO)
        await served.claim("x", token=9)
        await wait_until(sync.came.is_set)
        disk.fails = frame = Held("write", ".seg", None)
        in_flight = asyncio.create_task(served.claim("a"))
        await wait_until(frame.came.is_set)
        waiting = await begun(served.claim("b", token=2), served, 1)
        end = served.shard.group_commit.end
        sync.goes_on.set()
        await wait_until(lambda: end.ending is not None)
        served.clock.advance(EVICTION_MS)
        await check_as_the_tables_have_it(served, Event.ENDED, in_flight, waiting)
        frame.goes_on.set()
        await serves_again(served)
        assert verdicts_of(await served.claim("a")) == ["GRANTED"]
        assert verdicts_of(await served.claim("b", token=3)) == ["GRANTED"], "what waited was not written"
