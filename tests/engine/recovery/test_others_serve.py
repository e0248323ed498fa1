"""A namespace that cannot be served is refused by its name and reopened every minute; the others serve."""

import asyncio
import errno
import os
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from copy import deepcopy
from typing import Any

import pyarrow as pa
import pytest

from oncegate.core.errors import KeyMismatch, LedgerBusy, LedgerDamaged, LedgerDown, NotFound, OncegateError, Recovering
from oncegate.engine.deadline import Deadline
from oncegate.engine.gateway import OPENING_MS
from oncegate.engine.metrics.reader import MetricsReader
from oncegate.engine.recovery.owner import EVICTION_MS, RETRY_MS, RETRY_PAUSES
from oncegate.engine.requests import ClaimRequest
from oncegate.ports import OpenLedger
from oncegate.testing import FakeClock
from oncegate.transports import health
from tests.support.memory_gateway import GatedLedgers, Served, id16, run_ready_tasks, serving, verdicts_of, wait_until

DAMAGED = LedgerDamaged("a byte is not what it was; put a whole copy back")


class OneIsRefused(GatedLedgers):
    """Ledgers some of which cannot be opened (`refused`), are opened slowly (`slow`), or end outside appends (`ends`).

    `tried`: the attempted openings.
    """

    def __init__(self) -> None:
        super().__init__()
        self.refused: dict[str, Exception] = {}
        self.tried: list[str] = []
        self.slow: dict[str, asyncio.Event] = {}

    @asynccontextmanager
    async def open(self, namespace: str) -> AsyncIterator[OpenLedger]:
        self.tried.append(namespace)
        if namespace in self.slow:
            await self.slow[namespace].wait()
        if namespace in self.refused:
            raise self.refused[namespace]
        async with super().open(namespace) as opened:
            yield opened

    def copy(self, namespace: str) -> Any:
        """Returns a copy of a namespace's ledger."""
        return deepcopy(self._stores[namespace])

    def put_back(self, namespace: str, ledger: Any) -> Any:
        """Replaces a namespace's ledger and returns the old one."""
        other, self._stores[namespace] = self._stores[namespace], ledger
        return other

    def entries(self, namespace: str) -> int:
        return len(self._stores[namespace].entries)


async def with_namespaces(*names: str) -> OneIsRefused:
    ledgers = OneIsRefused()
    for name in names:
        await ledgers.create(name)
    return ledgers


def states(served: Served) -> dict[str, str]:
    return served.gateway.readiness()


REFUSALS = [
    DAMAGED,
    KeyMismatch("the key file is not the one that the ledger was written with"),
    LedgerBusy("owned by 4711"),
    LedgerDown("data folder data cannot be used (Permission denied: data/b/0)"),
    OSError(errno.EACCES, os.strerror(errno.EACCES), "data/b/0"),
    ZeroDivisionError("an unexpected snapshot"),
]


@pytest.mark.parametrize("why", REFUSALS, ids=repr)
@pytest.mark.parametrize("bad", ["b", "default"])
async def test_one_namespace_that_cannot_be_opened_is_down_and_the_others_serve(why: Exception, bad: str) -> None:
    ledgers = await with_namespaces("a", "b", "default")
    ledgers.refused[bad] = why
    async with serving(ledgers) as served:
        assert states(served) == {name: "DOWN" if name == bad else "SERVING" for name in ("a", "b", "default")}
        assert verdicts_of(await served.gateway.namespace("a").claims.claim(*_asked(served))) == ["GRANTED"]
        expected = type(why) if isinstance(why, LedgerDamaged | KeyMismatch | LedgerBusy) else Recovering
        with pytest.raises(expected, match=f"namespace {bad} is down, and opened again each minute: "):
            served.gateway.namespace(bad)
        answer = health.ready(served.gateway)
        assert (answer.ok, answer.detail.startswith(f"namespace {bad} is DOWN (")) == (True, True), answer
        assert health.ready(served.gateway, "a").ok
        assert not health.ready(served.gateway, bad).ok
        assert await served.gateway.create("c"), "a namespace can be made while another is down"
        assert states(served)["c"] == "SERVING"
        (family,) = [one for one in await MetricsReader().read(served.gateway) if one.metric.name == "namespace_state"]
        assert {name for (name, state), value in family.values.items() if state == "DOWN" and value} == {bad}


def _asked(served: Served) -> tuple[ClaimRequest, Deadline]:
    prints = served.gateway.namespace("a").fingerprints().of_array(pa.array(["x"], pa.string()))
    return ClaimRequest(id16(1), 1, prints), served.deadline()


async def test_a_gateway_none_of_whose_namespaces_can_be_opened_does_not_start() -> None:
    ledgers = await with_namespaces("a", "default")
    ledgers.refused = {"a": DAMAGED, "default": LedgerBusy("owned by 4711")}
    with pytest.raises(LedgerDamaged, match="a byte is not what it was"):
        async with serving(ledgers):
            raise AssertionError("it must not serve")


async def test_a_gateway_starts_where_one_is_damaged_and_the_other_is_opened_again_soon() -> None:
    ledgers = await with_namespaces("a", "default")
    ledgers.refused = {"a": DAMAGED, "default": OSError(errno.EMFILE, os.strerror(errno.EMFILE))}
    async with serving(ledgers) as served:
        assert states(served) == {"a": "DOWN", "default": "RECOVERING"}
        assert not health.ready(served.gateway).ok


async def test_a_namespace_that_is_down_is_reopened_each_minute_and_serves_once_repaired() -> None:
    ledgers = await with_namespaces("b", "default")
    ledgers.refused["b"] = DAMAGED
    async with serving(ledgers) as served:
        for _ in range(3):
            ledgers.tried.clear()
            await run_ready_tasks()
            served.clock.advance(RETRY_MS - 1)
            await run_ready_tasks()
            assert ledgers.tried == []
            served.clock.advance(1)
            await wait_until(lambda: ledgers.tried == ["b"])
            await run_ready_tasks()
            assert states(served) == {"b": "DOWN", "default": "SERVING"}
        del ledgers.refused["b"]
        with pytest.raises(LedgerDamaged):
            await served.gateway.create("b")
        served.clock.advance(RETRY_MS)
        await wait_until(lambda: states(served)["b"] == "SERVING")
        assert "serves_again" in served.events.names()
        assert (served.gateway.reason("b"), health.ready(served.gateway).detail) == ("", "")
        assert await served.gateway.create("b") is False


async def test_while_it_is_reopened_it_is_down_with_the_reason_at_once() -> None:
    ledgers = await with_namespaces("b", "default")
    ledgers.refused["b"] = DAMAGED
    async with serving(ledgers) as served:
        gate = ledgers.slow["b"] = asyncio.Event()
        served.clock.advance(RETRY_MS)
        await wait_until(lambda: ledgers.tried.count("b") == 2)
        assert states(served)["b"] == "DOWN"
        with pytest.raises(LedgerDamaged):
            await served.gateway.create("b")
        gate.set()


async def test_damage_that_takes_long_to_find_is_looked_for_in_a_tenth_of_the_time_at_most() -> None:
    ledgers = await with_namespaces("b", "default")
    ledgers.refused["b"] = DAMAGED
    gate = ledgers.slow["b"] = asyncio.Event()
    took_ms = RETRY_MS
    async with late(ledgers) as served:
        await _let_through(served, gate, took_ms - OPENING_MS)
        ledgers.tried.clear()
        served.clock.advance(RETRY_PAUSES * took_ms - 1)
        await run_ready_tasks()
        assert ledgers.tried == []
        served.clock.advance(1)
        await wait_until(lambda: ledgers.tried == ["b"])


async def _let_through(served: Served, gate: asyncio.Event, took_ms: int) -> None:
    served.clock.advance(took_ms)
    gate.set()
    await wait_until(lambda: served.gateway.readiness()["b"] == "DOWN")
    await run_ready_tasks()


async def test_a_namespace_that_is_damaged_while_it_serves_is_mended_without_a_restart() -> None:
    ledgers = await with_namespaces("b", "default")
    async with serving(ledgers) as served:
        ledgers.refused["b"] = DAMAGED
        ledgers.ends["b"].write_beside(DAMAGED)
        served.clock.advance(EVICTION_MS)
        await wait_until(lambda: states(served) == {"b": "DOWN", "default": "SERVING"})
        await run_ready_tasks()
        ledgers.refused.clear()
        ledgers.tried.clear()
        served.clock.advance(RETRY_MS - 1)
        await run_ready_tasks()
        assert (states(served)["b"], ledgers.tried) == ("DOWN", [])
        served.clock.advance(1)
        await wait_until(lambda: states(served) == {"b": "SERVING", "default": "SERVING"})


async def test_a_start_waits_for_no_ledger_that_takes_longer_than_seconds() -> None:
    ledgers = await with_namespaces("long", "default")
    gate = ledgers.slow["long"] = asyncio.Event()
    async with late(ledgers) as served:
        assert states(served) == {"default": "SERVING", "long": "RECOVERING"}
        assert health.ready(served.gateway).ok
        assert verdicts_of(await served.claim("a")) == ["GRANTED"]
        with pytest.raises(Recovering):
            served.gateway.namespace("long")
        gate.set()
        await wait_until(lambda: states(served)["long"] == "SERVING")


@asynccontextmanager
async def late(ledgers: OneIsRefused) -> AsyncIterator[Served]:
    """Yields a gateway that serves only after the time allowed for another namespace's slow opening."""
    opened: asyncio.Future[Served] = asyncio.get_running_loop().create_future()
    goes_on, clock = asyncio.Event(), FakeClock()

    async def serve() -> None:
        async with serving(ledgers, clock=clock) as served:
            opened.set_result(served)
            await goes_on.wait()

    task = asyncio.create_task(serve())
    await wait_until(lambda: ledgers.disk.appends)  # the other one is open
    await run_ready_tasks()
    clock.advance(OPENING_MS - 1)
    await run_ready_tasks()
    assert not opened.done()
    clock.advance(1)
    try:
        yield await opened
    finally:
        goes_on.set()
        await task


async def test_a_crash_in_the_upkeep_of_one_namespace_leaves_that_of_others_alone() -> None:
    ledgers = await with_namespaces("a", "default")
    async with serving(ledgers) as served:

        def crash() -> None:
            raise ZeroDivisionError("nobody expected this")

        served.gateway.namespace("a").home.scheduler.step = crash  # type: ignore[method-assign]
        namespace = served.namespace
        looked: list[None] = []
        real = namespace.home.scheduler.step

        def step() -> None:
            looked.append(None)
            real()

        namespace.home.scheduler.step = step  # type: ignore[method-assign]
        for _ in range(3):
            served.clock.advance(60_000)
            await run_ready_tasks()
        assert len(looked) == 3
        failed = [fields["namespace"] for name, fields in served.events.seen if name == "maintenance_failed"]
        assert set(failed) == {"a"}


async def test_a_kept_error_holds_no_frame_of_the_opening() -> None:
    ledgers = await with_namespaces("b", "default")
    error = LedgerDown("it cannot be used")
    error.__cause__ = _raised(OSError(errno.EACCES, "Permission denied"))
    ledgers.refused["b"] = error
    async with serving(ledgers) as served:
        (owner,) = [one for one in served.gateway.owners() if one.namespace == "b"]
        failed = owner.cause
        assert isinstance(failed, OncegateError)
        frames = [frame.name for frame in traceback.extract_tb(failed.__traceback__)]
        assert (failed.__cause__ is not None, "_serve" in frames) == (True, False)
        assert failed.__cause__.__traceback__ is None  # type: ignore[union-attr]


def _raised(error: Exception) -> Exception:
    try:
        raise error
    except Exception as raised:
        return raised


async def test_a_ledger_that_lost_what_this_process_acknowledged_is_not_served_again() -> None:
    """The check must not depend on a witness: no other process knows of the loss."""
    ledgers = await with_namespaces("default")
    async with serving(ledgers) as served:
        await served.claim("a")
        older = ledgers.copy("default")
        await served.claim("b", token=2)
        ledgers.ends["default"].write_beside(DAMAGED)
        served.clock.advance(EVICTION_MS)
        await wait_until(lambda: states(served) == {"default": "DOWN"})
        await run_ready_tasks()
        newer = ledgers.put_back("default", older)
        before = ledgers.entries("default")
        served.clock.advance(RETRY_MS)
        await wait_until(lambda: "has lost what this gateway acknowledged" in served.gateway.reason("default"))
        assert ledgers.entries("default") == before, "nothing was appended to it"
        await run_ready_tasks()
        ledgers.put_back("default", newer)
        served.clock.advance(RETRY_MS)
        await wait_until(lambda: states(served) == {"default": "SERVING"})
        assert verdicts_of(await served.claim("b", token=3)) == ["BUSY"]


async def test_damage_stays_the_reason_while_the_ledger_cannot_be_reached() -> None:
    ledgers = await with_namespaces("b", "default")
    ledgers.refused["b"] = DAMAGED
    async with serving(ledgers) as served:
        ledgers.refused["b"] = NotFound("namespace b does not exist; PUT /v1/namespaces/b creates it")
        await run_ready_tasks()
        served.clock.advance(RETRY_MS)
        await wait_until(lambda: ledgers.tried.count("b") == 2)
        await run_ready_tasks()
        assert (states(served)["b"], "LEDGER_DAMAGED" in served.gateway.reason("b")) == ("DOWN", True)
        with pytest.raises(LedgerDamaged):
            served.gateway.namespace("b")
