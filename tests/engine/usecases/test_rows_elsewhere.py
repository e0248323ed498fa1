"""Batches whose rows go to topics elsewhere: what is staged is sent as one, and asked about before."""

from collections.abc import AsyncIterator

import pytest

from oncegate.core.errors import TooLarge
from oncegate.engine.commit.change import Change
from oncegate.ports import DropRanges, SendRanges, WriteRange
from tests.support.held import Served, rows_of, serving, winner
from tests.support.sending import SendingLedgers

CHUNK_BYTES = len(rows_of(1, 2).data)


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    ledgers = SendingLedgers()
    ledgers.elsewhere.bytes_max = 2 * CHUNK_BYTES - 1
    async with serving(ledgers) as served:
        yield served


async def test_a_batch_that_cannot_be_sent_at_once_is_refused_before_any_effect(served: Served) -> None:
    tasks = [winner(await served.stage(rows_of(n, n + 1), token=n), n) for n in (1, 3)]
    before = len(served.disk.appends)
    with pytest.raises(TooLarge, match=str(2 * CHUNK_BYTES)):
        await served.commit(*tasks)
    assert len(served.disk.appends) == before


def test_what_waited_and_is_sent_counts_as_the_append_s_own_bytes() -> None:
    outputs = [WriteRange(b"1", "s", 1, b"abc"), SendRanges("t", (b"2",), waiting_bytes=40), DropRanges((b"3",))]
    assert Change([b"de"], outputs, lambda: None, lambda: None).size_bytes == 45
