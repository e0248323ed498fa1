"""Entries that a ledger consumes while they are produced."""

import asyncio

import pytest

from oncegate.engine.maintenance.snapshotter import EntryStream
from tests.support.memory_gateway import run_ready_tasks


async def test_entries_are_taken_at_once_in_order_and_not_retained() -> None:
    stream, taken = EntryStream(), []

    async def take() -> None:
        async for entry in stream:
            taken.append(entry)

    taking = asyncio.ensure_future(take())
    await run_ready_tasks()
    stream.give([b"1", b"2"])
    await run_ready_tasks()
    assert (taken, len(stream._unread)) == ([b"1", b"2"], 0)
    stream.give([b"3"])
    stream.end()
    await taking
    assert taken == [b"1", b"2", b"3"]


async def test_an_error_comes_after_what_was_given() -> None:
    stream = EntryStream()
    stream.give([b"1"])
    stream.end(ValueError("no more"))
    taking = aiter(stream)
    assert await anext(taking) == b"1"
    with pytest.raises(ValueError, match="no more"):
        await anext(taking)
