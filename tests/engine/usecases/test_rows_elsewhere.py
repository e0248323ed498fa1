"""Batches whose rows go to topics elsewhere: stages are sent together, and checked beforehand."""

from collections.abc import AsyncIterator

import pytest

from oncegate.core.errors import LedgerFull, TooLarge
from oncegate.engine.commit.queue import Change
from oncegate.ports import DropRanges, SendRanges, WriteRange
from tests.support.memory_gateway import Served, rows_of, run_ready_tasks, serving, winner
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


@pytest.mark.parametrize("write", ["rows", "commit"])
async def test_servers_that_cannot_be_asked_about_topics_are_looked_at_by_an_append(served: Served, write: str) -> None:
    task = winner(await served.stage(rows_of(1, 2), token=1), 1)
    served.disk.faults, served.ledgers.elsewhere.away = ["full"], "no broker answers"
    with pytest.raises(LedgerFull, match="no broker answers"):
        await (served.produce(rows_of(1, 2)) if write == "rows" else served.commit(task))
    await run_ready_tasks()
    assert served.shard.works()["room"] == "no space left on device"


async def test_a_topic_that_cannot_be_asked_about_alone_leaves_the_ledger_as_it_is(served: Served) -> None:
    served.ledgers.elsewhere.away = "no leader"
    with pytest.raises(LedgerFull, match="no leader"):
        await served.produce(rows_of(1, 2))
    await run_ready_tasks()
    assert served.disk.kinds()[-1] == ["Probe"]
    served.ledgers.elsewhere.away = ""
    assert (await served.produce(rows_of(1, 2))).rows == 2


async def test_a_refusal_of_topics_stays_one_where_nothing_was_written_while_the_ledger_is_full(served: Served) -> None:
    served.disk.faults, served.ledgers.elsewhere.away = ["full"], "no broker answers"
    for _ in range(2):
        with pytest.raises(LedgerFull, match="no broker answers"):
            await served.produce(rows_of(1, 2))
        await run_ready_tasks()
