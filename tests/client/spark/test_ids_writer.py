"""`write=ids` without Spark: rows written, dropped and waited for, and the log lines."""

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from oncegate_spark import Gateway
from oncegate_spark.errors import BadId, Outcome, TaskFailed
from oncegate_spark.protocol import codecs, marks
from oncegate_spark.protocol.effort import new_token
from oncegate_spark.spark.task_identity import Task
from tests.support.faulty_proxy import Fault, FaultyProxy
from tests.support.spark_writes import Write, batches, published
from tests.support.stub_gateway import LOST, StubGateway, problem
from tests.support.verdicts import GRANTED, produced

pytestmark = pytest.mark.server


def by_id(gateway: Gateway, **more: str) -> Write:
    return Write(gateway, None, write="ids", idCol="id", **more)


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes a request for every batch."""
    monkeypatch.setattr(codecs, "CHUNK_BYTES", 1)


def test_rows_take_effect_once_and_the_log_explains_each_result(
    gateway: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "oncegate_spark")
    write = by_id(gateway)
    write.writer.commit([write.task(1, 2, 2), write.task(2, 3)], 7)
    again = by_id(gateway)
    again.writer.commit([again.task(3, 1, 4)], None)
    assert published(gateway) == {1: 1, 2: 1, 3: 1, 4: 1}
    told = [record.getMessage() for record in caplog.records]
    assert told == [
        'batch 7 by id in dedup scope "t" to topic t: rows=5 written=3 suppressed=2 own=0 takeovers=0',
        'df.write by id in dedup scope "t" to topic t: rows=3 written=1 suppressed=2 own=0 takeovers=0',
    ]


def test_a_write_without_new_rows_warns_with_the_reason(gateway: Gateway, caplog: pytest.LogCaptureFixture) -> None:
    """Spark counts its input: without this line 100 rows of output may be none."""
    write = by_id(gateway)
    write.writer.commit([write.task(1, 2)], 7)
    write.writer.commit([write.task(1, 2, 3)], 8)
    write.writer.commit([write.task()], 9)
    assert "suppressed" not in caplog.text
    write.writer.commit([write.task(1, 2), write.task(3)], 10)
    message = 'all 3 rows are suppressed and none was written: each is already written, by its id in dedup scope "t"'
    assert message in caplog.text


def test_the_same_rows_go_to_two_topics_whole_and_a_retry_of_either_writes_nothing(gateway: Gateway) -> None:
    for topic in ("t", "u"):
        write = by_id(gateway, topic=topic)
        assert [write.task(1, 2).written, write.task(1, 2).suppressed] == [2, 2]
        table = gateway.read(topic)
        assert table is not None
        assert table.column("id").to_pylist() == ["id-1", "id-2"]


def test_writes_that_name_one_set_drop_each_others_rows(gateway: Gateway) -> None:
    assert by_id(gateway, idSet="flights").task(1, 2).written == 2
    elsewhere = by_id(gateway, topic="u", idSet="flights").task(2, 3)
    assert (elsewhere.written, elsewhere.suppressed) == (1, 1)


def test_rows_are_there_before_the_commit_and_after_an_abort(
    gateway: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    write = by_id(gateway)
    message = write.task(1, 2)
    assert published(gateway) == {1: 1, 2: 1}
    write.writer.abort([message])
    assert published(gateway) == {1: 1, 2: 1}
    assert "at least 2 rows of it stay in topic t, and the retry drops them" in caplog.text


def test_an_id_that_comes_again_in_a_later_request_of_the_task_is_its_own(gateway: Gateway, small_chunks: None) -> None:
    message = by_id(gateway).task(1, 2, 1)
    assert (message.row_count, message.written, message.own, message.suppressed) == (3, 2, 1, 0)
    assert published(gateway) == {1: 1, 2: 1}


def test_a_lost_reply_is_asked_for_again_and_nothing_is_written_twice(gateway: Gateway) -> None:
    faults = iter([Fault.LOSE_REPLY])
    port = int(gateway.url.rpartition(":")[2])
    with FaultyProxy(port, lambda kind: next(faults, Fault.PASS) if kind == "produce" else Fault.PASS) as proxy:
        write = by_id(gateway)
        write.writer.options = replace(write.options, url=f"http://127.0.0.1:{proxy.port}")
        message = write.task(1, 2)
    assert (message.written, message.own) == (0, 2)
    assert published(gateway) == {1: 1, 2: 1}


def test_what_another_attempt_claimed_is_waited_for_and_counted_when_it_is_taken_over(gateway: Gateway) -> None:
    """Claimed for another sink, and never completed."""
    with gateway.attempt(id_set="both") as other:
        claimed = other.claim(["id-2"], lease_ms=1_000)
        message = by_id(gateway, idSet="both").task(1, 2, 3)
        assert (message.row_count, message.written, message.takeovers) == (3, 3, 1)
        other.settle(claimed, "complete")
    assert published(gateway) == {1: 1, 2: 1, 3: 1}


def test_rows_claimed_and_completed_in_the_same_scope_are_not_written(gateway: Gateway) -> None:
    with gateway.attempt(id_set="t") as other:
        other.complete(other.claim(["id-2"]))
    assert by_id(gateway).task(1, 2).suppressed == 1
    assert published(gateway) == {1: 1}


def test_an_id_of_whole_numbers_is_the_claims_id(gateway: Gateway) -> None:
    """However the rows are sent, and in whichever mode."""
    with gateway.attempt() as other:
        other.complete(other.claim(["2"]))
    write = Write(gateway, None, write="ids", idCol="n", idSet="")
    assert write.task(1, 2).suppressed == 1
    with gateway.attempt() as other:
        claimed = other.claim([1, 2, 3])
        assert claimed.granted == [3]
        other.complete(claimed)


@pytest.mark.parametrize(
    ("ids", "told"),
    [
        (["a", None, None], r'id column id: 2 of 3 rows .* null.*df\.where\(F\.col\("id"\)\.isNotNull\(\)\)'),
        (["a", "", "b"], r'id column id: 1 of 3 rows .* empty.*df\.where\(\(F\.length\("id"\) > 0\)\)'),
    ],
)
def test_a_bad_id_fails_the_task_before_any_row_of_its_batch_is_written(
    gateway: Gateway, small_chunks: None, ids: list[str | None], told: str
) -> None:
    def rows() -> Iterator[pa.RecordBatch]:
        yield from batches(1)
        yield pa.RecordBatch.from_pydict({"id": pa.array(ids, pa.string()), "n": pa.array([7, 8, 9], pa.int64())})

    with pytest.raises(TaskFailed, match=rf"{told}.*; 1 rows were written by this task before") as raised:
        by_id(gateway).writer.write(rows(), new_token(), Task())
    assert isinstance(raised.value.__cause__, BadId)
    assert raised.value.outcome is Outcome.WRITTEN
    assert published(gateway) == {1: 1}


def test_an_error_reports_what_was_written_and_what_is_unknown(gateway: Gateway, small_chunks: None) -> None:
    refused, first = problem(413, "TOO_LARGE", "fix"), produced([GRANTED], (0, 0, 1))
    cases = [
        ([refused], "nothing was written by this task", Outcome.NOT_WRITTEN),
        ([first, refused], "1 rows were written by this task before", Outcome.WRITTEN),
        ([first], "unknown: whether the last rows sent were written; 1 rows were written by this", Outcome.UNKNOWN),
    ]
    for answers, told, outcome in cases:
        with StubGateway(*answers, otherwise=lambda asked: LOST) as stub:
            write = by_id(gateway, timeoutMs="1000")
            write.writer.options = replace(write.options, url=stub.url)
            with pytest.raises(TaskFailed, match=told) as raised:
                write.task(1, 2)
            assert raised.value.outcome is outcome


def test_an_empty_partition_asks_nothing(gateway: Gateway) -> None:
    message = by_id(gateway).task()
    assert (message.row_count, message.written) == (0, 0)
    assert gateway.describe()["counters"]["produced_rows"] == 0


def test_the_newest_mark_is_kept_beside_the_checkpoint(gateway: Gateway, tmp_path: Path) -> None:
    write = by_id(gateway, checkpointLocation=str(tmp_path))
    write.writer.commit([write.task(1), write.task(2)], 0)
    assert marks.read(tmp_path, gateway.namespace) == gateway_mark(gateway)


def gateway_mark(gateway: Gateway) -> str | None:
    gateway.describe()
    return gateway.mark


@pytest.mark.parametrize("mode", ["staged", "ids", "plain"])
def test_rows_of_one_key_go_to_one_partition_in_every_mode_that_writes_to_a_topic(gateway: Gateway, mode: str) -> None:
    gateway.create_topic("t", partitions=3)
    for batch in ("4", "5"):
        more = {"staged": {"txnAppId": "a", "txnVersion": batch}, "ids": {"idCol": "id"}}.get(mode, {})
        write = Write(gateway, None, write=mode, keyCol="n", **more)
        numbers = [n for n in range(12) for _ in range(2)]
        write.writer.commit([write.task(*numbers), write.task(*numbers)], None)
    parts = [gateway.fetch("t", partition=partition)[0] for partition in range(3)]
    held = [set(part.column("n").to_pylist()) for part in parts if part is not None]
    assert sum(len(keys) for keys in held) == len(set().union(*held)) == 12
    assert len(held) > 1
