"""Topics elsewhere that were recreated: rows by sequence and batches are refused before any effect."""

from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from oncegate.core.entries.kinds import IdentifiedBy, Name, SetWritten
from oncegate.core.errors import TopicReplaced
from oncegate.engine.requests import ProduceRequest, Rows, SequenceRequest
from tests.support.direct_records import DirectLanes, direct_lanes
from tests.support.memory_gateway import Served, id16, rows_of, run_ready_tasks, serving, winner
from tests.support.producing_lanes import Lanes
from tests.support.sending import SendingLedgers

OLD, NEW = bytes(15) + b"1", bytes(15) + b"2"


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with serving(SendingLedgers()) as served:
        yield served


def create_again(served: Served) -> None:
    elsewhere: Any = served.ledgers
    elsewhere.elsewhere.topic_id = NEW


def kinds(served: Served) -> list[str]:
    return [kind for group in served.disk.kinds() for kind in group if kind != "Probe"]


def recorded(served: Served) -> list[SetWritten]:
    return [entry for group in served.disk.appends for entry in group if isinstance(entry, SetWritten)]


async def begun(served: Served) -> Lanes:
    lane = Lanes(served)
    await lane.driver()
    await lane.register()
    served.disk.appends.clear()
    return lane


async def refused(served: Served, asked: Any, match: str) -> TopicReplaced:
    served.disk.appends.clear()
    with pytest.raises(TopicReplaced, match=match) as error:
        await asked
    assert kinds(served) == [], "nothing was written"
    return error.value


@pytest.mark.parametrize("sequences", [[1, 2], [2, 3], [3]])
async def test_sequences_of_a_topic_that_was_created_again_are_refused_old_or_new(
    served: Served, sequences: list[int]
) -> None:
    lane = await begun(served)
    assert (await lane.produce(0, [1, 2])).rows == 2
    assert recorded(served) == [SetWritten("p", "topic", OLD, recorded(served)[0].wall_ms, IdentifiedBy.SEQUENCES)]
    create_again(served)
    error = await refused(served, lane.produce(1, sequences), "another producer's name")
    assert error.extra == {"topic": "topic", "producer": "p"}


async def test_another_producer_writes_into_the_topic_that_was_created_again(served: Served) -> None:
    lane = await begun(served)
    await lane.produce(0, [1, 2])
    create_again(served)
    await lane.register(producer="q")
    sequenced = SequenceRequest("q", 1, id16(1), 0, np.array([1, 2], np.uint64))
    ask = ProduceRequest("topic", id16(1), 0, rows_of(1, 2), sequenced=sequenced)
    assert (await lane.namespace.records.produce(ask, served.deadline())).rows == 2


async def test_a_producer_that_is_older_than_ids_of_topics_takes_them_with_a_repeat_too(served: Served) -> None:
    lane = await begun(served)
    await lane.claim(0, [1, 2])
    await lane.complete(0)
    assert (await lane.produce(1, [1, 2])).rows == 0
    assert [(one.id_set, one.topic_id) for one in recorded(served)] == [("p", OLD)]
    create_again(served)
    await refused(served, lane.produce(2, [1, 2]), "'p'")


async def test_each_producer_knows_its_own_topics(served: Served) -> None:
    lane = await begun(served)
    await lane.register(producer="q")
    await lane.produce(0, [1])
    create_again(served)
    sequenced = SequenceRequest("q", 1, id16(1), 0, np.array([1], np.uint64))
    ask = ProduceRequest("topic", id16(1), 0, rows_of(1), sequenced=sequenced)
    assert (await lane.namespace.records.produce(ask, served.deadline())).rows == 1
    await refused(served, lane.produce(1, [2]), "'p'")


@pytest.mark.parametrize("version", ["5", "6"])
async def test_batches_of_a_topic_that_was_created_again_are_refused_where_they_are_staged(
    served: Served, version: str
) -> None:
    assert (await served.commit(winner(await served.stage(rows_of(1))))).outcome == "COMMITTED"
    create_again(served)
    name = Name("query", version, "topic")
    error = await refused(served, served.stage(rows_of(1), name), "another `app`")
    assert error.extra == {"topic": "topic", "app": "query"}


async def test_a_batch_that_was_staged_before_its_topic_was_created_again_is_refused_at_its_commit(
    served: Served,
) -> None:
    await served.commit(winner(await served.stage(rows_of(1))))
    name = Name("query", "6", "topic")
    staged = winner(await served.stage(rows_of(2), name, token=2), 2)
    create_again(served)
    await refused(served, served.commit(staged, name=name), "another `app`")


@pytest.mark.parametrize("nonce", [1, 2])
async def test_a_repeated_commit_is_refused_once_its_rows_are_gone_with_their_topic(served: Served, nonce: int) -> None:
    one = winner(await served.stage(rows_of(1)))
    await served.commit(one)
    create_again(served)
    await refused(served, served.commit(one, nonce=nonce), "another `app`")


async def test_the_first_batch_may_be_staged_before_its_topic_is_created_again(served: Served) -> None:
    one = winner(await served.stage(rows_of(1)))
    create_again(served)
    assert (await served.commit(one)).outcome == "COMMITTED"
    assert [(one.id_set, one.topic_id, one.identified_by) for one in recorded(served)] == [
        ("query", NEW, IdentifiedBy.BATCHES)
    ]


async def test_another_app_commits_into_the_topic_that_was_created_again(served: Served) -> None:
    await served.commit(winner(await served.stage(rows_of(1))))
    create_again(served)
    name = Name("query-2", "6", "topic")
    assert (await served.commit(winner(await served.stage(rows_of(1), name)), name=name)).outcome == "COMMITTED"


async def test_a_batch_that_is_older_than_ids_of_topics_takes_them_with_its_app_s_next_one(served: Served) -> None:
    one = winner(await served.stage(rows_of(1)))
    await served.commit(one)
    served.shard.journal.index.id_sets.restore(type(served.shard.journal.index.id_sets)().snapshot())
    assert (await served.commit(one, nonce=2, run="2")).outcome == "DUPLICATE"
    name = Name("query", "6", "topic")
    await served.commit(winner(await served.stage(rows_of(2), name, token=2), 2), name=name)
    create_again(served)
    await refused(served, served.commit(one, nonce=3), "another `app`")


async def test_topics_of_a_column_are_recorded_when_their_batch_is_committed(served: Served) -> None:
    def rows(*topics: str) -> Rows:
        batch = pa.record_batch({"value": list(topics), "topic": list(topics)})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        return Rows(batch.schema, [batch], batch.num_rows, sink.getvalue().to_pybytes())

    tasks = [winner(await served.stage(rows(*names), token=n), n) for n, names in ((1, "ab"), (2, "bc"))]
    assert recorded(served) == []
    await served.commit(*tasks)
    assert [one.topic for one in recorded(served)] == ["a", "b", "c"]
    create_again(served)
    name = Name("query", "6", "topic")
    await refused(served, served.stage(rows("c"), name), "topic c")
    await served.stage(rows("d"), name)


@pytest.fixture
async def lane() -> AsyncIterator[DirectLanes]:
    async with direct_lanes() as lane:
        yield lane


@pytest.mark.parametrize("first", [1, 5, 9])
async def test_a_lane_whose_topic_was_created_again_is_refused_old_rows_or_new(lane: DirectLanes, first: int) -> None:
    assert await lane.ask(1, 5, topic_id=OLD) == []
    lane.records.commit(1, (1, 5))
    assert await lane.ask(1, 5, topic_id=OLD) == [[1, 5]]
    error = await refused(lane.served, lane.ask(first, 9, topic_id=NEW), "another producer's name")
    assert error.extra == {"topic": "t", "producer": "p"}
    await lane.open(producer="q")
    assert await lane.ask(1, 5, producer="q", topic_id=NEW) == []


async def test_rows_that_came_since_the_topic_was_recorded_are_read_before_it_is_compared(lane: DirectLanes) -> None:
    assert await lane.ask(1, 5, topic_id=OLD) == []
    lane.records.commit(1, (1, 5))
    with pytest.raises(TopicReplaced):
        await lane.ask(7, 9, topic_id=NEW)


async def test_a_lane_that_has_written_nothing_goes_to_the_topic_that_was_created_again(lane: DirectLanes) -> None:
    assert await lane.ask(1, 5, topic_id=OLD) == []
    assert await lane.ask(1, 5, topic_id=NEW) == []
    lane.records.commit(1, (1, 5))
    with pytest.raises(TopicReplaced):
        await lane.ask(1, 5, topic_id=OLD)


async def test_a_lane_without_a_topic_id_is_not_compared_and_takes_one_with_its_next_question(
    lane: DirectLanes,
) -> None:
    lane.records.commit(1, (1, 5))
    assert await lane.ask(1, 5) == [[1, 5]]
    assert await lane.ask(1, 5, topic_id=OLD) == [[1, 5]]
    assert await lane.ask(1, 5) == [[1, 5]]
    with pytest.raises(TopicReplaced):
        await lane.ask(1, 5, topic_id=NEW)


async def test_the_topic_is_durable_before_the_answer_that_lets_rows_into_it(lane: DirectLanes) -> None:
    await lane.ask(1, 5)
    lane.disk.hold()
    pending = await lane.served.begin(lane.ask(1, 5, topic_id=OLD))
    while not recorded(lane.served):
        lane.disk.gate.set()
        lane.disk.gate.clear()
        await run_ready_tasks()
    assert not pending.done()
    await lane.disk.release()
    assert await pending == []
