"""Topics: produced rows are read back by offset, and only once they are durable."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from oncegate.core.errors import BadRequest, LedgerFull, NotFound, SchemaMismatch, TooLarge
from oncegate.engine.requests import ProduceRequest, Rows, TopicRequest
from oncegate.engine.usecases.partitioning import stream
from oncegate.transports.decode import records
from tests.support.memory_gateway import GatedLedgers, Served, id16, rows_of, run_ready_tasks, serving, winner


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with serving() as served:
        yield served


ALL = 1 << 40


async def test_rows_get_the_next_offsets(served: Served) -> None:
    first, second = await served.produce(rows_of(1, 2)), await served.produce(rows_of(3), call=2)
    assert (first.spans[0].first_offset, first.rows, second.spans[0].first_offset) == (0, 2, 2)
    assert await served.read() == [1, 2, 3]
    assert served.shard.counters()["produced_rows"] == 3


async def test_plain_writes_again_what_is_sent_again(served: Served) -> None:
    for _ in range(2):
        await served.produce(rows_of(1))
    assert await served.read() == [1, 1]


async def test_no_rows_write_nothing(served: Served) -> None:
    assert (await served.produce(rows_of())).rows == 0
    assert served.disk.appends == []


async def test_another_schema_is_refused_with_both_shown(served: Served) -> None:
    await served.produce(rows_of(1))
    with pytest.raises(SchemaMismatch, match=r"\(n int64\).*\(n string\)"):
        await served.produce(rows_of("1", kind=pa.string()))
    assert await served.read() == [1]


@pytest.mark.parametrize("is_made", [False, True])
async def test_a_first_write_of_duplicates_only_makes_the_topic_that_it_was_sent_to(
    served: Served, is_made: bool
) -> None:
    ids = np.arange(2, dtype=np.uint64).reshape(1, 2)
    if is_made:
        await served.namespace.topics.create(TopicRequest("second"), served.deadline())
    for topic in ("first", "second", "second"):
        request = ProduceRequest(topic, id16(1), len(served.disk.appends), rows_of(1), ids, id_set="both")
        result = await served.namespace.records.produce(request, served.deadline())
        assert result.rows == (1 if topic == "first" else 0)
    assert await served.read("second") == []
    view = await served.namespace.topics.view("second")
    assert (view.schema.names, view.high_offsets) == (["n"], [0])
    assert sum("Topic" in kind for kinds in served.disk.kinds() for kind in kinds) == (3 if is_made else 2)


async def test_a_first_write_of_duplicates_to_a_full_disk_makes_no_topic(served: Served) -> None:
    ids = np.arange(2, dtype=np.uint64).reshape(1, 2)
    first = ProduceRequest("first", id16(1), 1, rows_of(1), ids, id_set="both")
    await served.namespace.records.produce(first, served.deadline())
    served.disk.faults.append("full")
    second = replace(first, topic="second", call=2)
    # The second attempt finds no room, and appends nothing.
    for _ in range(2):
        with pytest.raises(LedgerFull):
            await served.namespace.records.produce(second, served.deadline())
        with pytest.raises(NotFound):
            await served.namespace.topics.view("second")
        assert len(served.disk.appends) == 2
    assert (await served.namespace.records.produce(replace(first, call=2), served.deadline())).rows == 0


def table_of(**columns: Any) -> Rows:
    """Returns rows of several columns, as a transport passes them on."""
    batch = pa.record_batch(columns)
    return Rows(batch.schema, [batch], batch.num_rows, stream(batch.schema, [batch]))


async def everything(served: Served) -> list[dict[str, Any]]:
    """Returns all rows of the topic's one partition, read as the transports read them."""
    rows_read = await records.read(served.namespace, "topic", 0, 0, 1_000, 1 << 20)
    return [row for batch in rows_read.batches for row in batch.to_pylist()]


async def test_columns_are_known_by_name_and_those_left_out_are_null(served: Served) -> None:
    await served.produce(table_of(n=[1], who=["ann"]))
    await served.produce(table_of(who=["bob"], n=[2]))
    await served.produce(table_of(who=["cid"]))
    staged = await served.stage(table_of(n=[4]))
    assert (await served.commit(winner(staged))).rows == 1
    rows = [(1, "ann"), (2, "bob"), (None, "cid"), (4, None)]
    assert await everything(served) == [{"n": n, "who": who} for n, who in rows]
    assert (await served.namespace.topics.view("topic")).schema.names == ["n", "who"]


async def merged(served: Served, **columns: Any) -> None:
    request = TopicRequest("topic", schema=pa.schema(columns), merges=True)
    await served.namespace.topics.create(request, served.deadline())


async def test_columns_that_are_added_are_null_in_every_row_before(served: Served) -> None:
    await served.produce(table_of(n=[1]))
    await merged(served, who=pa.string(), n=pa.int64())
    await served.produce(table_of(who=["bob"], n=[2]))
    await merged(served, n=pa.int64())
    appends = len(served.disk.appends)
    await merged(served, who=pa.string())
    assert len(served.disk.appends) == appends, "nothing changes, nothing is written"
    assert await everything(served) == [{"n": 1, "who": None}, {"n": 2, "who": "bob"}]
    with pytest.raises(SchemaMismatch, match=r"n int64.*n string"):
        await merged(served, n=pa.string(), more=pa.int8())
    assert (await served.namespace.topics.view("topic")).schema.names == ["n", "who"]


async def test_a_topic_never_gets_more_columns_than_a_request_may_have(served: Served) -> None:
    await served.produce(table_of(n=[1]))
    inside = pa.struct([(f"c{number}", pa.int8()) for number in range(1_000)])
    with pytest.raises(TooLarge, match="would have 1001 columns"):
        await merged(served, wide=inside)
    assert (await served.namespace.topics.view("topic")).schema.names == ["n"]
    await merged(served, wide=pa.struct(list(inside)[1:]))
    assert (await served.namespace.topics.view("topic")).schema.names == ["n", "wide"]


async def test_a_batch_staged_before_columns_were_added_is_committed_and_its_replay_equals_it(served: Served) -> None:
    await served.produce(table_of(n=[0]))
    before = await served.stage(table_of(n=[1]))
    await merged(served, who=pa.string())
    assert (await served.commit(winner(before))).rows == 1
    replayed = await served.stage(table_of(n=[1]), token=2)
    assert replayed.fingerprint == before.fingerprint
    assert await everything(served) == [{"n": 0, "who": None}, {"n": 1, "who": None}]


async def test_columns_added_during_a_read_begin_the_next_answer(served: Served) -> None:
    """The earlier rows were read with the earlier columns."""
    await served.produce(table_of(n=[1]))
    namespace, fetch = served.namespace, served.namespace.topics.fetch

    async def fetch_and_widen(*given: Any) -> Any:
        found = await fetch(*given)
        await merged(served, who=pa.string())
        await served.produce(table_of(n=[2], who=["bob"]))
        namespace.topics.fetch = fetch  # type: ignore[method-assign]
        return found

    namespace.topics.fetch = fetch_and_widen  # type: ignore[method-assign]
    found = await records.read(namespace, "topic", 0, 0, 1_000, 1 << 20)
    assert (found.schema.names, found.next_offset) == (["n"], 1)
    assert [batch.to_pylist() for batch in found.batches] == [[{"n": 1}]]
    after = await records.read(namespace, "topic", 0, 1, 1_000, 1 << 20)
    assert [batch.to_pylist() for batch in after.batches] == [[{"n": 2, "who": "bob"}]]


async def test_nullability_and_metadata_are_no_part_of_a_schema(served: Served) -> None:
    await served.produce(rows_of(1))
    rows = rows_of(2)
    strict = pa.schema([pa.field("n", pa.int64(), nullable=False, metadata={"k": "v"})], metadata={"m": "v"})
    await served.produce(type(rows)(strict, rows.batches, rows.rows, rows.data))
    assert (await served.namespace.topics.view("topic")).schema == pa.schema([("n", pa.int64())])


async def test_ranges_are_whole_and_cover_what_was_asked_for(served: Served) -> None:
    for numbers in ((1, 2, 3), (4,), (5, 6)):
        await served.produce(rows_of(*numbers))
    fetched = await served.namespace.topics.fetch("topic", 0, 2, 2, ALL)
    assert [(chunk.first_offset, chunk.rows) for chunk in fetched.chunks] == [(0, 3), (3, 1)]
    assert (fetched.low_offset, fetched.high_offset) == (0, 6)


async def test_at_and_beyond_the_end_there_is_nothing_yet(served: Served) -> None:
    await served.produce(rows_of(1))
    for offset in (1, 100):
        fetched = await served.namespace.topics.fetch("topic", 0, offset, 10, ALL)
        assert (fetched.chunks, fetched.high_offset) == ([], 1)


async def test_one_answer_is_bounded() -> None:
    async with serving(fetch_rows=2) as served:
        for number in range(5):
            await served.produce(rows_of(number))
        assert len((await served.namespace.topics.fetch("topic", 0, 0, 1_000, ALL)).chunks) == 2


@pytest.mark.parametrize(("partition", "offset", "max_rows"), [(0, -1, 1), (0, 0, 0), (0, 0, -5)])
async def test_offsets_and_counts_are_checked(served: Served, partition: int, offset: int, max_rows: int) -> None:
    await served.produce(rows_of(1))
    with pytest.raises(BadRequest):
        await served.namespace.topics.fetch("topic", partition, offset, max_rows, ALL)


async def test_rows_that_were_never_written_are_not_found(served: Served) -> None:
    await served.produce(rows_of(1))
    for topic, partition in (("nothing", 0), ("topic", 1)):
        with pytest.raises(NotFound):
            await served.namespace.topics.fetch(topic, partition, 0, 1, ALL)
    with pytest.raises(NotFound, match="first write creates it"):
        await served.namespace.topics.view("nothing")


async def test_a_refused_write_was_never_seen(served: Served) -> None:
    await served.produce(rows_of(1))
    served.disk.hold()
    produced = await served.begin(served.produce(rows_of(2)))
    read = await served.begin(served.read())
    served.disk.faults = ["full"]
    await served.disk.release()
    assert isinstance(produced.exception(), LedgerFull)
    assert isinstance(read.exception(), LedgerFull), "it would have returned rows that do not exist"
    assert await served.read() == [1]


async def test_produced_and_committed_rows_share_one_topic_and_survive_a_restart() -> None:
    ledgers = GatedLedgers()
    async with serving(ledgers) as served:
        await served.produce(rows_of(1, 2))
        await served.commit(winner(await served.stage(rows_of(3))))
        await served.produce(rows_of(4))
    async with serving(ledgers) as served:
        assert await served.read() == [1, 2, 3, 4]
        assert (await served.produce(rows_of(5))).spans[0].first_offset == 4
        assert served.shard.journal.index.topics.names() == ["topic"]


async def test_offsets_do_not_include_rows_that_came_while_waiting(served: Served) -> None:
    """The answer waits only for the changes that it includes: later ones may be refused."""
    disk = served.disk
    disk.hold()
    first = await served.begin(served.produce(rows_of(1)))
    pending = await served.begin(served.namespace.topics.view("topic"))
    second = await served.begin(served.produce(rows_of(2, 3), call=2))
    disk.gate.set()
    disk.gate.clear()  # one append passes, the next waits
    await run_ready_tasks()
    assert (first.done(), pending.done(), second.done()) == (True, True, False)
    disk.faults = ["full"]
    await disk.release()
    assert isinstance(second.exception(), LedgerFull)
    assert (pending.result().low_offsets, pending.result().high_offsets) == ([0], [1])
    assert (await served.namespace.topics.view("topic")).high_offsets == [1]
