"""Rows of one key are in one partition, even if their topic is created while they are staged."""

import hashlib
from collections.abc import AsyncIterator
from functools import reduce

import numpy as np
import pytest

from oncegate.core.errors import MissingStage
from oncegate.engine.requests import StageRequest, StageResult, TopicRequest
from oncegate.hashing.rows import EMPTY, add
from oncegate.index.batches import Winner
from tests.support.memory_gateway import BATCH, GatedLedgers, Served, id16, rows_of, serving

KEY = 7  # the last of these four partitions


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with serving() as served:
        yield served


async def stage(served: Served, number: int, chunk: int, token: int = 1, by_key: bool = True) -> StageResult:
    """Stages one row, by its key if requested."""
    rows, namespace = rows_of(number), served.namespace
    fingerprint = reduce(add, map(namespace.row_fingerprints.of_batch, rows.batches), EMPTY)
    keys = np.array([KEY], np.uint64) if by_key else None
    sha256 = hashlib.sha256(rows.data).digest()
    request = StageRequest(BATCH, "run:1", id16(token), chunk, sha256, rows, fingerprint, keys)
    return await namespace.batches.stage(request, served.deadline())


async def make_topic(served: Served, partitions: int) -> None:
    await served.namespace.topics.create(TopicRequest("topic", partitions=partitions), served.deadline())


def of_both(*staged: StageResult, token: int = 1) -> Winner:
    return Winner(id16(token), len(staged), len(staged), reduce(add, [one.fingerprint for one in staged], EMPTY))


@pytest.mark.parametrize("restarted", [False, True])
async def test_rows_staged_by_key_before_their_topic_had_partitions_are_written_again(restarted: bool) -> None:
    ledgers = GatedLedgers()
    async with serving(ledgers) as served:
        first = await stage(served, 1, 0)
        await make_topic(served, 4)
        winner = of_both(first, await stage(served, 2, 1))
        if not restarted:
            await refused(served, winner)
    async with serving(ledgers) as served:
        if restarted:
            await refused(served, winner)
        again = of_both(*[await stage(served, number, number - 1, token=2) for number in (1, 2)], token=2)
        done = await served.commit(again)
        assert [(span.partition, span.rows) for span in done.spans] == [(KEY % 4, 2)]
        assert served.shard.counters()["stage_bytes"] == 0


async def refused(served: Served, winner: Winner) -> None:
    appends = len(served.disk.appends)
    with pytest.raises(MissingStage, match="staged when topic topic had 1 partition, and it has 4: write the batch ag"):
        await served.commit(winner)
    assert len(served.disk.appends) == appends, "nothing was written"
    assert (await served.namespace.topics.view("topic")).high_offsets == [0] * 4


async def test_rows_staged_without_keys_may_be_in_any_partition(served: Served) -> None:
    first = await stage(served, 1, 0, by_key=False)
    await make_topic(served, 4)
    done = await served.commit(of_both(first, await stage(served, 2, 1, by_key=False)))
    assert sum(span.rows for span in done.spans) == 2


@pytest.mark.parametrize("made", ["before", "with one partition", "never"])
async def test_rows_staged_in_the_current_layout_are_published(served: Served, made: str) -> None:
    if made == "before":
        await make_topic(served, 4)
    first = await stage(served, 1, 0)
    if made == "with one partition":
        await make_topic(served, 1)
    done = await served.commit(of_both(first, await stage(served, 2, 1)))
    assert [span.rows for span in done.spans] == [2]
