"""The parts of a shard's index to which entries are dispatched."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress

import pytest

from oncegate.clock import SystemClock
from oncegate.core.entries.kinds import Claimed, Completed, Entry, Probe, Released, Taken
from oncegate.core.errors import LedgerDamaged
from oncegate.engine.commit.marks import Marks
from oncegate.engine.recovery import replay as replay_module
from oncegate.engine.recovery.batch_queue import BatchQueue
from oncegate.engine.recovery.replay import rebuild
from oncegate.index.shard import ShardIndex
from oncegate.ports import Mark, Replayed

ID = bytes(range(16))
CLAIMED = Claimed(ID, ID, 0, ID, 30_000, 5, ID, b"")


@pytest.mark.parametrize("entry", [CLAIMED, Completed(ID, 6), Released(ID, 6), Taken(ID, 6, ID, b"")])
def test_entries_that_only_the_claims_are_shown_mean_nothing_to_the_other_parts(entry: Entry) -> None:
    index = ShardIndex()
    applied = [part.apply for part in index._parts if part.apply is not None]
    assert len(applied) > 8
    assert {apply(1, entry, 0) for apply in applied} == {None}


def test_a_claim_is_taken_back_and_settled_by_what_applying_it_gave() -> None:
    index = ShardIndex()
    undo, _ = index.apply(1, CLAIMED, 0)
    assert index.claims.ids == 1
    undo()
    assert (index.claims.ids, index.claims.open_claims) == (0, 0)
    _, settle = index.apply(1, CLAIMED, 0)
    settle()
    assert index.claims.ids == 1


def test_a_ledger_of_another_version_of_the_format_is_refused_in_one_line() -> None:
    mark = Mark(ID, 1, ID)
    old = bytes((Probe.KIND, 1)) + bytes(8)
    with pytest.raises(LedgerDamaged, match=r"^entry 1 of the ledger cannot be read: entry of version 1, but "):
        rebuild(ShardIndex(), [[Replayed(1, old, mark)]], Marks(ID), ID, 0)


async def test_a_replay_that_is_cancelled_twice_is_cancelled_and_closes_the_ledger(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Like two signals during a start: the second arrives while the first one's cleanup waits for a read."""
    reading, read_on, closed = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def batches() -> AsyncGenerator[Sequence[Replayed], None]:
        try:
            yield []
            reading.set()
            while not read_on.is_set():
                with suppress(asyncio.CancelledError):
                    await read_on.wait()
            yield []
        finally:
            closed.set()

    monkeypatch.setattr(replay_module, "rebuild", lambda _index, queue, *_rest: sum(1 for _ in queue))
    task = asyncio.create_task(replay_module.replay(ShardIndex(), batches(), Marks(ID), b"", 0))
    await reading.wait()
    for _ in range(2):
        task.cancel()
        await SystemClock().sleep_ms(0)
    read_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    await closed.wait()


async def test_a_replay_that_is_cancelled_leaves_no_thread_that_waits_though_its_reading_hangs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A waiting thread would keep the process alive; a hanging disk call cannot be cancelled."""
    reading, read_on, ended = asyncio.Event(), asyncio.Event(), threading.Event()

    def waiting(_index: ShardIndex, queue: BatchQueue, *_rest: object, **_named: object) -> int:
        with suppress(asyncio.CancelledError):
            for _batch in queue:
                pass
        ended.set()
        return 0

    async def batches() -> AsyncGenerator[Sequence[Replayed], None]:
        yield []
        reading.set()
        while not read_on.is_set():
            with suppress(asyncio.CancelledError):
                await read_on.wait()

    monkeypatch.setattr(replay_module, "rebuild", waiting)
    work = asyncio.create_task(replay_module.replay(ShardIndex(), batches(), Marks(ID), ID, 0))
    await reading.wait()
    work.cancel()
    try:
        assert await asyncio.to_thread(ended.wait, 20), "the thread waits for what the hung reading would bring"
    finally:
        read_on.set()
        with suppress(asyncio.CancelledError):
            await work
