"""Source offsets of a job's Kafka source: sent by the driver with a batch or its ack, returned to another query."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deploy.ports import free_port
from oncegate_spark import Gateway, committed_offsets
from oncegate_spark.errors import BadOption, NotFound, Refused, Unreachable
from oncegate_spark.spark import acks
from oncegate_spark.spark.checkpoint import BatchInput, DriverNotes
from oncegate_spark.spark.task_identity import Task
from tests.support.lane_queries import Query
from tests.support.lane_rows import lane
from tests.support.spark_writes import READ, Write

pytestmark = pytest.mark.server
EVENTS = {"events": {"0": 17, "1": 4}}


def read(number: int, *sources: Any) -> BatchInput:
    return BatchInput(number, f"{number:064x}", None, None, json.dumps(list(sources)))


def offsets(gateway: Gateway, app: str = "q", topic: str = "t", **more: str) -> Any:
    return json.loads(committed_offsets(app, topic, gateway=gateway.url, namespace=gateway.namespace, **more))


def staged(gateway: Gateway, found: BatchInput, **more: str) -> None:
    write = Write(gateway, found, **more)
    batch = str(found.number)
    write.writer.commit([write.task(1, batch=batch, partition=part) for part in range(2)], found.number)


def test_a_staged_batch_brings_them_and_a_later_one_takes_its_place(gateway: Gateway) -> None:
    staged(gateway, read(4, {"events": {"0": 9, "1": 0}}))
    staged(gateway, read(5, EVENTS))
    assert offsets(gateway) == EVENTS


def test_they_travel_in_one_task_of_all(gateway: Gateway) -> None:
    write = Write(gateway, read(4, EVENTS))
    messages = [write.task(1, partition=part) for part in range(3)]
    assert [message.source_offsets is not None for message in messages] == [True, False, False]
    assert {message.read for message in messages} == {replace(read(4), offsets=None)}
    write.writer.commit(messages[::-1], 4)
    assert offsets(gateway) == EVENTS


def test_a_batch_whose_source_is_unknown_leaves_none(gateway: Gateway) -> None:
    staged(gateway, read(4, EVENTS))
    staged(gateway, replace(READ, number=5, previous=None))
    with pytest.raises(NotFound, match="the newest one brought none"):
        offsets(gateway)


def test_each_write_of_a_batch_has_its_own(gateway: Gateway) -> None:
    staged(gateway, read(4, EVENTS), writeId="late")
    assert offsets(gateway, write_id="late") == EVENTS
    with pytest.raises(NotFound):
        offsets(gateway)


@pytest.mark.parametrize("sources", [(), (EVENTS, EVENTS), (51,), ({"0": 17},), ({},), ({"events": {"0": "x"}},)])
def test_inputs_other_than_one_kafka_source_are_refused(gateway: Gateway, sources: tuple[Any, ...]) -> None:
    staged(gateway, read(4, *sources))
    with pytest.raises(Refused, match=r"does not read a single Kafka source.*Gateway\.source_offsets"):
        offsets(gateway)
    assert json.loads(gateway.source_offsets("q", "t")) == list(sources)


class Lanes(Query):
    """A query by sequence whose batches have a source."""

    def write(self, batch: int, *batches: Any) -> Any:
        self.found = read(batch, {"events": {"0": 10 * (batch + 1)}})
        return super().write(batch, *batches)


def test_by_sequence_they_come_with_the_ack_and_never_before(gateway: Gateway, tmp_path: Path) -> None:
    query = Lanes(gateway, tmp_path)
    target = query.options.target
    query.commit(0, query.write(0, lane("a", 1)), query.write(0, lane("b", 1)))
    query.begin()
    with pytest.raises(NotFound):
        offsets(gateway, topic=target)
    query.log(0)
    query.begin()
    assert offsets(gateway, topic=target) == {"events": {"0": 10}}
    query.commit(1, query.write(1, lane("a", 2)))
    query.log(1)
    query.begin()
    assert offsets(gateway, topic=target) == {"events": {"0": 20}}


def test_a_partly_refused_ack_is_reported_and_its_next_attempt_does_not_set_others_back(
    gateway: Gateway, tmp_path: Path
) -> None:
    query = Lanes(gateway, tmp_path)
    dead = gateway.producer(query.producer("a"), driver="q")
    dead.register()
    dead.claim([1, 2])
    dead.close()
    for batch in range(3):
        query.commit(batch, query.write(batch, *([] if batch else [lane("a", 2)]), lane("b", batch)))
        query.log(batch)
        query.begin()
        assert offsets(gateway, topic=query.options.target) == {"events": {"0": 10 * (batch + 1)}}
    assert (query.begin(), query.noted) == (0, 1)
    assert offsets(gateway, topic=query.options.target) == {"events": {"0": 30}}


def test_an_ack_of_a_batch_that_a_later_one_has_followed_does_not_set_them_back(
    gateway: Gateway, tmp_path: Path
) -> None:
    query = Lanes(gateway, tmp_path)
    query.commit(4, query.write(4, lane("a", 1)))
    (file,) = (query.folder / "oncegate" / "acks").iterdir()
    file.write_text(json.dumps({**json.loads(file.read_text()), "is_scoped": True}))
    with gateway.driver("q", acks.token_of("run-1")) as driver:
        driver.ack({}, 5, query.options.target, json.dumps([EVENTS]))
    query.log(4)
    assert query.begin() == 1
    assert offsets(gateway, topic=query.options.target) == EVENTS


def test_with_scope_retry_another_app_continues_and_unacked_rows_are_dropped(gateway: Gateway, tmp_path: Path) -> None:
    scoped = {"write": "ids", "idCol": "lane", "topic": "t", "scope": "retry"}
    query = Lanes(gateway, tmp_path / "old", txnAppId="etl", **scoped)
    query.folder.mkdir()
    for batch, name in enumerate(("x", "y")):
        query.begin()
        query.commit(batch, query.write(batch, lane(name, 1)))
        if not batch:
            query.log(batch)
    query.begin()
    assert offsets(gateway, "etl") == {"events": {"0": 10}}
    another = Lanes(gateway, tmp_path / "new", run="run-2", txnAppId="etl-2", **scoped)
    assert [another.write(0, lane(name, 1)).written for name in ("y", "z")] == [0, 1]


def test_inside_foreach_batch_they_are_those_that_it_has_noted(gateway: Gateway, tmp_path: Path) -> None:
    query = Lanes(gateway, tmp_path)
    notes = DriverNotes(read(3, EVENTS), str(tmp_path), "run-1")
    for batch, known in (("3", '[{"events": {"0": 17, "1": 4}}]'), ("4", None)):
        task = Task(query="q", batch=batch, run="run-1", notes=DriverNotes.from_json(notes.to_json()))
        part = acks.ack_part(query.options, task, {}, None)
        assert part is not None
        assert part.source_offsets == known


def test_an_ack_has_them_with_the_topic_or_not_at_all(gateway: Gateway) -> None:
    with gateway.driver("q") as driver:
        driver.ack({}, topic="t", source_offsets=json.dumps([EVENTS]))
        with pytest.raises(BadOption, match=r"need topic, .*; nothing was acked"):
            driver.ack({}, source_offsets="[]")
        assert offsets(gateway) == EVENTS
        driver.ack({}, topic="t")
    with pytest.raises(NotFound):
        offsets(gateway)


def test_a_gateway_that_is_down_is_waited_for_according_to_on_down() -> None:
    where: dict[str, Any] = {"gateway": f"http://127.0.0.1:{free_port()}", "timeout_ms": 1_000}
    with pytest.raises(Unreachable, match="on_down allows no further retries, after 1 tries"):
        committed_offsets("q", "t", **where, on_down="fail")
    with pytest.raises(BadOption, match="here it must be block or fail"):
        committed_offsets("q", "t", **where, on_down="spill")
