"""Callers that are cancelled: nothing stays locked, and nothing is left half done."""

import asyncio
import threading
from pathlib import Path

import pytest

from oncegate.core.errors import LedgerBusy
from oncegate.ledgers.log import open_log
from tests.support.ledger_tools import FailingDisk, Seen, fill, look, produce, see


class HeldDisk(FailingDisk):
    """Blocks at one kind of call until it is released."""

    def __init__(self, call: str, where: str) -> None:
        super().__init__(self._hold)
        self.held, self.go_on, self.armed = threading.Event(), threading.Event(), False
        self._call, self._where = call, where

    def _hold(self, call: str, path: Path) -> int | None:
        if self.armed and call == self._call and self._where in str(path):
            self.held.set()
            assert self.go_on.wait(30)
        return None


async def test_an_append_whose_caller_went_away_is_done_and_closed_in_order(tmp_path) -> None:
    disk = HeldDisk("sync", ".seg")

    async def own() -> None:
        async with (
            open_log(str(tmp_path / "data"), create=True, disk=disk) as ledgers,
            ledgers.open("default") as opened,
        ):
            await opened.ledger.append(*produce(0))
            disk.armed = True
            await opened.ledger.append(*produce(1))

    owner = asyncio.create_task(own())
    assert await asyncio.to_thread(disk.held.wait, 30)
    owner.cancel()
    await asyncio.wait([owner], timeout=0.05)
    assert not owner.done(), "leaving waits for what was begun"
    assert isinstance(await look(tmp_path / "data"), LedgerBusy)
    disk.go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await owner
    found = await look(tmp_path / "data")
    assert isinstance(found, Seen)
    assert found.entries == (b"entry 0", b"entry 1")


async def test_an_opening_whose_caller_went_away_leaves_nothing_locked(tmp_path) -> None:
    whole = await fill(tmp_path / "data", [produce(0)])
    for call, where in (("read", ".seg"), ("rename", ".seg"), ("sync", ".witness")):
        disk = HeldDisk(call, where)
        disk.armed = True
        async with open_log(str(tmp_path / "data"), disk=disk) as ledgers:

            async def own(ledgers=ledgers) -> None:
                async with ledgers.open("default"):
                    raise AssertionError("it was cancelled before")

            owner = asyncio.create_task(own())
            assert await asyncio.to_thread(disk.held.wait, 30)
            owner.cancel()
            await asyncio.wait([owner], timeout=0.02)
            assert not owner.done()
            disk.go_on.set()
            with pytest.raises(asyncio.CancelledError):
                await owner
            async with ledgers.open("default") as opened:
                assert await see(opened.ledger) == whole
