"""Many ledgers of one data folder: they share threads, and an idle one costs nothing."""

import asyncio
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from oncegate.ledgers.log import ledgers as ledgers_module
from oncegate.ledgers.log import open_log
from oncegate.ledgers.log.strands import WRITING_THREADS, Strand
from oncegate.ports import Ledger

# Threads without any ledger: the loop's own pool, and the test's thread.
OTHER_THREADS = 40


@asynccontextmanager
async def many(data: Path, count: int) -> AsyncIterator[list[Ledger]]:
    async with AsyncExitStack() as stack:
        ledgers = await stack.enter_async_context(open_log(str(data), create=True))
        for number in range(count):
            await ledgers.create(f"n{number}")
        yield [(await stack.enter_async_context(ledgers.open(f"n{number}"))).ledger for number in range(count)]


async def test_threads_do_not_grow_with_ledgers(fast_folder: Path) -> None:
    async with many(fast_folder / "data", 2 * OTHER_THREADS) as ledgers:
        for _ in range(3):
            await asyncio.gather(*(ledger.append([b"entry"], []) for ledger in ledgers))
        assert threading.active_count() <= WRITING_THREADS + OTHER_THREADS


async def test_the_witness_of_each_ledger_is_synced_once_after_it_was_written(
    fast_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledgers_module, "WITNESS_SYNC_S", 0.01)
    async with many(fast_folder / "data", 3) as ledgers:
        looked: list[Ledger] = []
        for ledger in ledgers:
            keep_up = ledger.keep_up  # type: ignore[attr-defined]

            async def counted(ledger: Ledger = ledger, keep_up=keep_up) -> None:
                looked.append(ledger)
                await keep_up()

            monkeypatch.setattr(ledger, "keep_up", counted)
        await ledgers[1].append([b"entry"], [])
        async with asyncio.timeout(20):
            while ledgers[1]._writer.witness._dirty:  # type: ignore[attr-defined]
                await asyncio.to_thread(int)
        assert looked == [ledgers[1]], "the idle ones cost nothing"


def test_a_strand_makes_its_calls_in_order_one_at_a_time_and_strands_side_by_side() -> None:
    with ThreadPoolExecutor(4) as pool:
        strands = [Strand(pool) for _ in range(3)]
        together = threading.Barrier(4)
        made: list[list[int]] = [[], [], []]
        under_way = [0, 0, 0]

        def call(strand: int, number: int) -> int:
            under_way[strand] += 1
            assert under_way[strand] == 1, "one at a time"
            if number == 0:
                together.wait(20)
            made[strand].append(number)
            under_way[strand] -= 1
            return number

        futures = [strands[strand].submit(call, strand, number) for number in range(200) for strand in range(3)]
        together.wait(20)
        assert [future.result(20) for future in futures] == [number for number in range(200) for _ in range(3)]
        assert made == [list(range(200))] * 3


def test_a_call_that_raises_is_reported_to_its_caller_and_the_strand_continues() -> None:
    with ThreadPoolExecutor(1) as pool:
        strand = Strand(pool)
        with pytest.raises(ZeroDivisionError):
            strand.submit(lambda: 1 // 0).result(20)
        assert strand.submit(int).result(20) == 0
