"""Entries that a ledger takes while they are made."""

import asyncio

import pytest

from oncegate.engine.commit.entry_stream import EntryStream
from tests.support.held import turns


async def test_what_is_given_is_taken_at_once_in_order_and_not_held() -> None:
    handed, taken = EntryStream(), []

    async def take() -> None:
        async for entry in handed:
            taken.append(entry)

    taking = asyncio.ensure_future(take())
    await turns()
    handed.give([b"1", b"2"])
    await turns()
    assert (taken, len(handed._waiting)) == ([b"1", b"2"], 0)
    handed.give([b"3"])
    handed.end()
    await taking
    assert taken == [b"1", b"2", b"3"]


async def test_an_error_comes_after_what_was_given() -> None:
    handed = EntryStream()
    handed.give([b"1"])
    handed.end(ValueError("no more"))
    taking = aiter(handed)
    assert await anext(taking) == b"1"
    with pytest.raises(ValueError, match="no more"):
        await anext(taking)
