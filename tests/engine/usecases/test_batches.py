"""Stage: chunks wait under a name until it is committed; every reply has rows and fingerprint."""

import struct
from collections.abc import AsyncIterator
from dataclasses import replace

import pyarrow as pa
import pytest

from oncegate.core.entries.kinds import Name
from oncegate.core.errors import ChunkAltered, SchemaMismatch
from oncegate.hashing.rows import add
from tests.support.memory_gateway import BATCH, GatedLedgers, Served, rows_of, serving, winner

LATER = Name("query", "6", "topic")


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with serving() as served:
        yield served


async def test_a_chunk_is_kept_and_cannot_be_read_yet(served: Served) -> None:
    answer = await served.stage(rows_of(1, 2, 3))
    assert (answer.committed, answer.rows) == (False, 3)
    assert served.shard.journal.index.topics.names() == []
    assert served.shard.counters()["stage_bytes"] == len(rows_of(1, 2, 3).data)


async def test_the_same_chunk_again_is_fine_and_writes_nothing(served: Served) -> None:
    first = await served.stage(rows_of(1, 2))
    appends = len(served.disk.appends)
    assert await served.stage(rows_of(1, 2)) == first
    assert len(served.disk.appends) == appends


async def test_the_same_chunk_with_other_rows_is_refused(served: Served) -> None:
    staged = winner(await served.stage(rows_of(1, 2)))
    with pytest.raises(ChunkAltered):
        await served.stage(rows_of(1, 3))
    await served.commit(staged)
    assert await served.read() == [1, 2]


async def test_the_same_chunk_again_after_a_restart_is_fine() -> None:
    ledgers = GatedLedgers()
    async with serving(ledgers) as served:
        first = await served.stage(rows_of(1, 2))
    async with serving(ledgers) as served:
        assert await served.stage(rows_of(1, 2)) == first
        with pytest.raises(ChunkAltered):
            await served.stage(rows_of(9))


async def test_the_fingerprint_is_that_of_the_rows_in_any_order_and_cut(served: Served) -> None:
    whole = await served.stage(rows_of(1, 2, 3))
    turned = await served.stage(rows_of(3, 1, 2), token=2)
    parts = [await served.stage(rows_of(*part), token=3, chunk=at) for at, part in enumerate([(3,), (1, 2)])]
    assert turned.fingerprint == whole.fingerprint
    assert add(parts[0].fingerprint, parts[1].fingerprint) == whole.fingerprint
    assert (await served.stage(rows_of(1, 2, 2), token=4)).fingerprint != whole.fingerprint


async def test_a_committed_name_stores_nothing_more_but_returns_the_fingerprint(served: Served) -> None:
    staged = await served.stage(rows_of(1, 2))
    await served.commit(winner(staged))
    appends = len(served.disk.appends)
    late = await served.stage(rows_of(2, 1), token=2)
    assert (late.committed, late.rows, late.fingerprint) == (True, 2, staged.fingerprint)
    assert len(served.disk.appends) == appends
    assert served.shard.counters()["stage_bytes"] == 0


async def test_a_committed_name_takes_rows_of_any_schema_for_comparison(served: Served) -> None:
    await served.commit(winner(await served.stage(rows_of(1))))
    late = await served.stage(rows_of(1, column="other"), token=2)
    assert late.committed


async def test_chunks_of_one_attempt_have_one_schema(served: Served) -> None:
    await served.stage(rows_of(1))
    with pytest.raises(SchemaMismatch, match=r"n int64.*n string"):
        await served.stage(rows_of("1", kind=pa.string()), chunk=1)


async def test_rows_of_another_schema_than_the_topics_are_refused_before_they_are_stored(served: Served) -> None:
    await served.produce(rows_of(1))
    appends = len(served.disk.appends)
    with pytest.raises(SchemaMismatch) as refused:
        await served.stage(rows_of(1, column="m"))
    assert refused.value.extra == {"topic_schema": "n int64", "rows_schema": "m int64"}
    assert len(served.disk.appends) == appends


async def test_one_attempts_name_for_another_batch_is_another_stage(served: Served) -> None:
    first, second = await served.stage(rows_of(1)), await served.stage(rows_of(2), LATER)
    await served.commit(winner(first))
    await served.commit(winner(second), name=LATER, nonce=2)
    assert await served.read() == [1, 2]


async def test_what_cannot_be_written_down_is_not_in_the_index_either(served: Served) -> None:
    """The transports refuse such requests; if one passed, the index must not get ahead of its ledger."""
    with pytest.raises(struct.error):
        await served.stage(rows_of(1), chunk=2**32)
    assert served.shard.counters()["stage_bytes"] == 0
    staged = winner(await served.stage(rows_of(1)))
    await served.commit(staged)
    beyond = replace(staged, rows=2**64)
    with pytest.raises(struct.error):
        await served.commit(beyond, run="2", nonce=2)
    assert (await served.commit(staged, run="2", nonce=3)).outcome == "DUPLICATE"


async def test_an_empty_chunk_is_a_chunk(served: Served) -> None:
    empty = await served.stage(rows_of())
    answer = await served.commit(winner(empty))
    assert (answer.outcome, answer.rows) == ("COMMITTED", 0)
    assert served.shard.journal.index.topics.names() == ["topic"], "its schema is known from now on"
    assert await served.read() == []


async def test_an_abort_removes_just_the_tokens_it_names(served: Served) -> None:
    mine, zombies = await served.stage(rows_of(1), token=1), await served.stage(rows_of(2), token=2)
    assert zombies.rows == 1
    answer = await served.abort(2, 3)
    assert (answer.committed, answer.removed) == (False, 1)
    await served.commit(winner(mine))
    assert await served.read() == [1]


async def test_a_token_twice_in_one_abort_is_removed_once(served: Served) -> None:
    await served.stage(rows_of(1))
    assert (await served.abort(1, 1)).removed == 1
    assert served.gateway.readiness() == {"default": "SERVING"}


async def test_an_abort_of_another_batch_removes_nothing(served: Served) -> None:
    await served.stage(rows_of(1))
    assert (await served.abort(1, name=LATER)).removed == 0
    assert BATCH in served.shard.journal.index.batches.stages


async def test_an_abort_of_a_committed_name_reports_that_and_removes_nothing(served: Served) -> None:
    await served.commit(winner(await served.stage(rows_of(1))))
    assert (await served.abort(1)).committed
    assert await served.read() == [1]


async def test_an_aborted_stage_can_be_sent_again(served: Served) -> None:
    await served.stage(rows_of(1))
    await served.abort(1)
    await served.commit(winner(await served.stage(rows_of(2))))
    assert await served.read() == [2]
