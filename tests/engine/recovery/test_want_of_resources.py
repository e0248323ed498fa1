"""A ledger that cannot be opened for lack of resources is opened later, automatically; the others serve meanwhile."""

import asyncio
import errno
import os
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from oncegate.core.claims import Verb
from oncegate.core.errors import LedgerDown, LedgerFull, Recovering
from oncegate.engine.gateway import open_gateway
from oncegate.engine.limits import Limits
from oncegate.engine.recovery.owner import REOPEN_MS
from oncegate.engine.recovery.world import OPENINGS
from oncegate.ledgers import open_ledgers
from oncegate.ports import OpenLedger
from oncegate.runs import run_folders
from oncegate.testing import FakeClock
from tests.support.memory_gateway import GatedLedgers, id16, run_ready_tasks, serving, verdicts_of, wait_until
from tests.support.simulated_world import Quiet, World


def no_descriptors() -> LedgerDown:
    """Returns the error of a ledger with the system's error as its cause."""
    error = LedgerDown("data folder data cannot be used")
    error.__cause__ = OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    return error


SHORTAGES = [
    no_descriptors(),
    OSError(errno.ENFILE, "Too many open files in system"),
    OSError(errno.ENOMEM, "Cannot allocate memory"),
    LedgerFull("the disk is full"),
    MemoryError("no address space for an index"),
    RuntimeError("can't start new thread"),
]


@pytest.mark.parametrize("error", SHORTAGES, ids=repr)
async def test_a_first_opening_that_found_no_resources_is_tried_again_by_itself(error: Exception) -> None:
    async with serving() as served:
        served.disk.refuse_to_open = error
        with pytest.raises(Recovering, match="tried again"):
            await served.gateway.create("other")
        assert served.gateway.readiness() == {"default": "SERVING", "other": "RECOVERING"}
        with pytest.raises(Recovering):
            await served.gateway.create("other")
        assert verdicts_of(await served.claim("a")) == ["GRANTED"], "others go on"
        served.disk.refuse_to_open = None
        served.clock.advance(REOPEN_MS)
        await wait_until(lambda: served.gateway.readiness()["other"] == "SERVING")
        assert await served.gateway.create("other") is False


async def test_a_first_opening_is_tried_again_ever_more_slowly() -> None:
    async with serving() as served:
        served.disk.refuse_to_open = no_descriptors()
        with pytest.raises(Recovering):
            await served.gateway.create("other")
        for pause_ms in (REOPEN_MS, 2 * REOPEN_MS, 4 * REOPEN_MS):
            await served.check_next_opening_after(pause_ms)


async def test_a_gateway_starts_while_one_of_its_ledgers_cannot_be_opened_for_now() -> None:
    class OneCannot(GatedLedgers):
        @asynccontextmanager
        async def open(self, namespace: str) -> AsyncIterator[OpenLedger]:
            if namespace == "big":
                raise no_descriptors()
            async with super().open(namespace) as opened:
                yield opened

    ledgers = OneCannot()
    await ledgers.create("big")
    async with serving(ledgers) as served:
        assert served.gateway.readiness() == {"big": "RECOVERING", "default": "SERVING"}
        assert verdicts_of(await served.claim("a")) == ["GRANTED"]


async def test_a_ledger_that_needs_a_person_is_reported_at_once() -> None:
    ledgers = GatedLedgers()
    ledgers.disk.refuse_to_open = OSError(errno.EACCES, "Permission denied")
    with pytest.raises(OSError, match="Permission denied"):
        async with serving(ledgers):
            raise AssertionError("it must not serve")


class CountedLedgers(GatedLedgers):
    """Counts the openings in progress, and blocks them until `let_through` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.at_once = self.most = 0
        self.let_through = asyncio.Event()

    @asynccontextmanager
    async def open(self, namespace: str) -> AsyncIterator[OpenLedger]:
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        await self.let_through.wait()
        self.at_once -= 1
        async with super().open(namespace) as opened:
            yield opened


async def test_ledgers_are_opened_side_by_side_and_a_bounded_number_of_them() -> None:
    ledgers = CountedLedgers()
    for number in range(3 * OPENINGS):
        await ledgers.create(f"n{number}")

    async def serve() -> int:
        async with serving(ledgers) as served:
            return len(served.gateway.namespaces())

    serving_all = asyncio.create_task(serve())
    await wait_until(lambda: ledgers.at_once == OPENINGS)
    await run_ready_tasks()
    ledgers.let_through.set()
    assert await serving_all == 3 * OPENINGS + 1
    assert ledgers.most == OPENINGS


def test_rebuilding_takes_none_of_the_threads_that_reading_needs(tmp_path: Path) -> None:
    """A rebuild asks the ledger for evicted ids: in the loop's last thread it would wait for itself."""
    world = World(tmp_path, 1)
    claim, _ = world.claim(id16(1), 1, ["a", "b"])
    assert claim is not None
    world.settle(Verb.COMPLETE, claim)
    world.clock.advance(20 * 60_000)
    assert world.seal() == 2
    world.close()

    async def start_again() -> None:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        place, limits = f"log:{tmp_path / '0'}", Limits(hot_ids=0, seal_bytes=16)
        async with (
            asyncio.timeout(20),
            open_ledgers(place) as ledgers,
            open_gateway(ledgers, run_folders(place), FakeClock(), Quiet(), limits) as gateway,
        ):
            assert gateway.readiness() == {"default": "SERVING"}

    asyncio.run(start_again())


async def test_a_disk_that_cannot_be_asked_for_its_room_at_an_opening_leaves_no_half_opened_shard() -> None:
    class Unanswered(GatedLedgers):
        asked = 0

        def free_bytes(self) -> tuple[int, int]:
            self.asked += 1
            if self.asked == 2:
                raise OSError(errno.EMFILE, "Too many open files")
            return super().free_bytes()

    async with serving(Unanswered()) as served:
        with pytest.raises(Recovering):
            await served.gateway.create("other")
        assert served.gateway.readiness() == {"default": "SERVING", "other": "RECOVERING"}
        served.clock.advance(REOPEN_MS)
        await wait_until(lambda: served.gateway.readiness()["other"] == "SERVING")
