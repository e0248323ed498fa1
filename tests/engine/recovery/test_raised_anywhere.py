"""Errors anywhere in the background: each is logged at once, no caller waits forever, and the namespace recovers."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from types import CodeType
from typing import Any

import pyarrow as pa
import pytest

from oncegate.core.claims import Verb
from oncegate.core.errors import OncegateError
from oncegate.engine.deadline import Deadline
from oncegate.engine.gateway import Gateway, open_gateway
from oncegate.engine.limits import Limits
from oncegate.engine.recovery.owner import EVICTION_MS, MAINTENANCE_MS
from oncegate.engine.requests import ClaimRequest, TakeRequest
from oncegate.ledgers.log import open_log
from oncegate.runs import LocalRunFolders
from oncegate.testing import FakeClock
from tests.support.ledger_tools import QuietDisk
from tests.support.memory_gateway import id16, verdicts_of, wait_until
from tests.support.sabotage import WORK, Saboteur

LIMITS = Limits(hot_ids=4, seal_bytes=32, collect_bytes=1, lease_ms_min=1)
PLANTED = "planted here"


class Told:
    """An observer that looks for the planted error."""

    def __init__(self, saboteur: Saboteur) -> None:
        self._saboteur = saboteur
        self._found = False

    def event(self, name: str, /, **fields: object) -> None:
        self._found = self._found or any(PLANTED in str(value) for value in fields.values())

    @property
    def of_all(self) -> bool:
        """Returns whether the error was logged, if it was raised."""
        return self._found or not self._saboteur.raised


class Day:
    """Requests and background work of all kinds over a ledger of files, with a record of the acknowledged ids."""

    def __init__(self, gateway: Gateway, clock: FakeClock, told: Told) -> None:
        self._gateway, self._clock, self._told = gateway, clock, told
        self._tokens = itertools.count(1)
        self.taken: list[str] = []

    async def quiet(self) -> None:
        """Returns once the namespace serves and the background is idle. No time passes before an error is logged."""
        await wait_until(self._is_quiet)

    def _is_quiet(self) -> bool:
        if not self._told.of_all:
            return False
        if self._gateway.readiness()["default"] != "SERVING":
            self._clock.advance(10)
            return False
        namespace = self._gateway.namespace("default")
        if namespace.home.snapshotter.compacting:
            self._clock.advance(10)
        return not namespace.home.eviction.working and not namespace.home.snapshotter.compacting

    async def pass_ms(self, duration_ms: int) -> None:
        for _ in range(duration_ms // EVICTION_MS):
            self._clock.advance(EVICTION_MS)
            await self.quiet()

    async def asked(self, request: Coroutine[Any, Any, Any]) -> Any:
        """Returns the answer, or None if the gateway refuses. Raises TimeoutError instead of waiting forever."""
        try:
            async with asyncio.timeout(60):
                return await request
        except OncegateError:
            return None

    async def take(self, *names: str) -> None:
        await self.quiet()
        namespace = self._gateway.namespace("default")
        prints = namespace.fingerprints().of_array(pa.array(names, pa.string()))
        if await self.asked(namespace.claims.take(TakeRequest(id16(7), prints), Deadline(self._clock))) is not None:
            self.taken += names

    async def claim_and_complete(self, *names: str) -> None:
        await self.quiet()
        namespace = self._gateway.namespace("default")
        prints = namespace.fingerprints().of_array(pa.array(names, pa.string()))
        request = ClaimRequest(id16(next(self._tokens)), 1, prints, 1)
        answer = await self.asked(namespace.claims.claim(request, Deadline(self._clock)))
        if answer is not None and answer.claim is not None:
            await self.asked(namespace.claims.settle(Verb.COMPLETE, answer.claim, Deadline(self._clock)))

    async def run(self) -> None:
        for part in range(3):
            await self.take(*(f"{part}-{n}" for n in range(8)))
            await self.claim_and_complete(f"claimed {part}")
            await self.pass_ms(MAINTENANCE_MS + EVICTION_MS)

    async def check(self) -> None:
        """Checks that all acknowledged ids are known, and that a new one is granted."""
        found = None
        while found is None:
            await self.quiet()
            namespace = self._gateway.namespace("default")
            prints = namespace.fingerprints().of_array(pa.array([*self.taken, "new"], pa.string()))
            found = await self.asked(namespace.claims.take(TakeRequest(id16(8), prints), Deadline(self._clock)))
        assert verdicts_of(found) == ["DUPLICATE"] * len(self.taken) + ["GRANTED"]


@asynccontextmanager
async def day_of(folder: Path, saboteur: Saboteur) -> AsyncIterator[Day]:
    clock, disk, told = FakeClock(), QuietDisk(), Told(saboteur)
    async with open_log(str(folder), create=True, disk=disk) as ledgers:
        runs = LocalRunFolders(folder, disk)
        gateway = open_gateway(ledgers, runs, clock, told, LIMITS)
        try:
            yield Day(await gateway.__aenter__(), clock, told)
        finally:
            async with asyncio.timeout(60):
                await gateway.__aexit__(None, None, None)
    assert told.of_all


async def outlives(folder: Path, saboteur: Saboteur) -> None:
    async with day_of(folder, saboteur) as day:
        await day.run()
        await day.check()
    async with day_of(folder, Saboteur(RuntimeError())) as again:
        again.taken = day.taken
        await again.check()


@pytest.mark.parametrize("work", WORK)
async def test_an_error_at_any_wait_is_logged_and_the_namespace_serves_again(
    work: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for wait in itertools.count(1):
        saboteur = Saboteur(RuntimeError(PLANTED), wait=wait)
        with monkeypatch.context() as patched:
            saboteur.watch(patched, work)
            await outlives(tmp_path / str(wait), saboteur)
        if not saboteur.raised:
            break
    assert wait > 1, "there is something to wait for"


@pytest.mark.parametrize("work", WORK)
async def test_an_error_in_any_function_is_logged_and_the_namespace_serves_again(
    work: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = Saboteur(RuntimeError())
    with monkeypatch.context() as patched:
        honest.watch(patched, work)
        await outlives(tmp_path / "honest", honest)
    functions: list[CodeType] = list(honest.called)
    assert len(functions) > 1
    for number, function in enumerate(functions):
        saboteur = Saboteur(RuntimeError(PLANTED), function=function)
        with monkeypatch.context() as patched:
            saboteur.watch(patched, work)
            await outlives(tmp_path / str(number), saboteur)
