"""The acks of a driver: after the commit log and never before, once, and void if they are an older driver's."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from deploy.ports import free_port
from oncegate_spark import Gateway
from oncegate_spark.errors import BatchOver, BrokenMessages, NotDriver, TaskFailed
from oncegate_spark.protocol.effort import new_token
from oncegate_spark.spark import acks
from oncegate_spark.spark.checkpoint import BatchInput
from oncegate_spark.spark.foreach_batch import foreach_batch
from oncegate_spark.spark.options import Options
from oncegate_spark.spark.task_identity import Task
from oncegate_spark.spark.writers import writer_of
from tests.support.data_frame import Frame
from tests.support.lane_queries import Query
from tests.support.lane_rows import LANES, lane

pytestmark = pytest.mark.server


@pytest.fixture
def query(gateway: Gateway, tmp_path: Path) -> Query:
    return Query(gateway, tmp_path)


def test_a_batch_is_acked_when_the_next_begins_and_its_commit_is_logged_and_never_before(query: Query) -> None:
    query.commit(0, query.write(0, lane("a", 1, 2)), query.write(0, lane("b", 7)))
    assert query.standing() == (None, [[1, 2]])
    assert query.begin() == 0  # the commit log has no entry: a restart would run the batch again
    assert query.standing() == (None, [[1, 2]])
    query.log(0)
    assert query.begin() == 1
    assert (query.standing(), query.standing("b"), query.noted) == ((2, []), (7, []), 0)


def test_two_writes_of_one_batch_are_both_acked(query: Query) -> None:
    """The case inside foreachBatch: one driver, one batch, and each write records its own tasks' work."""
    for name in ("a", "b"):
        query.commit(0, query.write(0, lane(name, 1, 2)))
    query.log(0)
    assert query.begin() == 2
    assert (query.standing(), query.standing("b"), query.noted) == ((2, []), (2, []), 0)


def test_a_replay_before_the_commit_log_writes_nothing_twice_and_is_acked_once(query: Query) -> None:
    query.commit(0, query.write(0, lane("a", 1, 2)))
    again = Query(query.gateway, query.folder, "run-2")
    assert again.begin() == 0
    message = again.write(0, lane("a", 1, 2))
    assert (message.written, message.suppressed) == (0, 2)
    again.commit(0, message)
    again.log(0)
    again.begin()
    assert (again.standing(), again.noted) == ((2, []), 0)


def test_acked_rows_are_stale_for_late_attempts(query: Query) -> None:
    query.commit(0, query.write(0, lane("a", 1, 2)))
    query.log(0)
    query.begin()
    late = query.write(0, lane("a", 1, 2, 3))
    assert (late.written, late.suppressed) == (1, 2)


def test_an_older_run_that_still_acks_gets_an_error_and_disturbs_no_other(
    query: Query, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "oncegate_spark")
    query.commit(0, query.write(0, lane("a", 1)))
    newer = Query(query.gateway, query.folder, "run-2")
    newer.log(0)
    newer.begin()
    newer.commit(1, newer.write(1, lane("a", 2)))
    newer.log(1)
    newer.begin()
    query.commit(2, query.write(2, lane("a", 3)))  # the zombie continues
    query.log(2)
    assert query.begin() == 1
    assert "older driver; its ack is discarded" in caplog.text
    assert (newer.standing(), newer.noted) == ((2, [[3, 3]]), 0)
    newer.commit(3, newer.write(3, lane("a", 4)))
    newer.log(3)
    newer.begin()
    assert newer.standing() == (4, [])


def test_an_ack_that_finds_no_gateway_fails_no_batch_and_is_made_up_for(
    query: Query, caplog: pytest.LogCaptureFixture
) -> None:
    query.commit(0, query.write(0, lane("a", 1)))
    query.log(0)
    (file,) = (query.folder / "oncegate" / "acks").iterdir()
    kept = file.read_text()
    file.write_text(json.dumps({**json.loads(kept), "url": f"http://127.0.0.1:{free_port()}"}))
    assert acks.send(str(query.folder), timeout_ms=100) == 0
    assert "batch 0 is not acked yet" in caplog.text
    file.write_text(kept)
    assert query.begin() == 1


def test_batches_are_acked_by_their_numbers_also_where_these_have_more_digits(query: Query) -> None:
    """Notes of batches 9, 10 and 11 are due at once; only the last of them acks the ids of all."""
    acked: list[tuple[int, bool]] = []
    for batch in (9, 10, 11):
        query.commit(batch, query.write(batch, lane("a", batch)))
        query.log(batch)
    real = acks._ack
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(acks, "_ack", lambda note, limit: (acked.append(note.batch), real(note, limit))[1])
        assert query.begin() == 3
    assert acked == [9, 10, 11]
    assert (query.standing(), query.noted) == ((11, []), 0)


def leave(query: Query, name: str, *at: int) -> None:
    """Leaves sequences claimed and uncompleted, as a dead attempt does."""
    dead = query.gateway.producer(query.producer(name), driver="q")
    dead.register()
    dead.claim(at)
    dead.close()


def test_an_ack_refused_in_part_is_done_for_the_rest_and_reported(
    query: Query, caplog: pytest.LogCaptureFixture
) -> None:
    """A task whose rows differ from those of the previous attempt: a person must look, and nothing is forgotten."""
    leave(query, "a", 1, 2)
    query.commit(0, query.write(0, lane("a", 2)), query.write(0, lane("b", 7)))
    query.log(0)
    for _ in range(2):
        caplog.clear()
        assert query.begin() == 0
        name = query.producer("a")
        assert f"producer {name} not acked yet, NOT_DONE: sequences 1 to 1 of producer {name}" in caplog.text
        assert "producer b" not in caplog.text
        assert (query.standing(), query.standing("b"), query.noted) == ((None, [[2, 2]]), (7, []), 1)
    (file,) = (query.folder / "oncegate" / "acks").iterdir()
    assert json.loads(file.read_text())["upto"] == {query.producer("a"): 2}


def test_a_leftover_of_a_dead_task_keeps_no_later_batch_from_being_acked(query: Query) -> None:
    leave(query, "a", 1, 2)
    for batch in range(3):
        query.commit(batch, query.write(batch, lane("a", 2 + batch), lane("b", batch)))
        query.log(batch)
        query.begin()
        assert query.standing("b") == (batch, [])


def test_a_task_cannot_ack(query: Query) -> None:
    query.write(0, lane("a", 1))
    with query.gateway.driver("q", acks.token_of("run-1")), query.gateway.driver("q", acks.token_of("run-1")) as driver:
        stranger = query.gateway.driver("q")
        stranger._calls.epoch = driver.epoch
        with pytest.raises(NotDriver):
            stranger.ack({query.producer("a"): 1})
        assert driver.ack({query.producer("a"): 1}).watermarks == {query.producer("a"): 1}


SCOPED = {"write": "ids", "idCol": "lane", "topic": "t", "scope": "retry"}


def test_ids_of_a_batch_are_forgotten_with_its_ack_and_its_latecomers_fail(gateway: Gateway, tmp_path: Path) -> None:
    query = Query(gateway, tmp_path, **SCOPED)
    query.commit(4, query.write(4, lane("x", 1), lane("y", 2)))
    assert query.write(4, lane("x", 1)).suppressed == 1
    assert gateway.explain("x", id_set="t")["state"] == "DONE"
    query.log(4)
    assert query.begin() == 1
    assert gateway.explain("x", id_set="t")["state"] == "ABSENT"
    with pytest.raises(TaskFailed, match=r"was acked.*checkpoint was reset") as late:
        query.write(4, lane("x", 1))
    assert isinstance(late.value.__cause__, BatchOver)
    assert query.write(5, lane("x", 1)).written == 1


def test_a_leftover_of_a_dead_task_holds_back_its_own_batch_alone(
    gateway: Gateway, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    query = Query(gateway, tmp_path, **SCOPED)
    dead = gateway.attempt(scope=("q", 4), id_set="t")
    claimed = dead.claim(["left"])
    for batch, name in ((4, "x"), (5, "y"), (6, "z")):
        query.commit(batch, query.write(batch, lane(name, 1)))
        query.log(batch)
        query.begin()
        assert "the ids of batch 4 not acked yet, NOT_DONE: open claims of batch 4" in caplog.text
        assert (gateway.explain("x", id_set="t")["state"], query.noted) == ("DONE", 1)
    assert [gateway.explain(name, id_set="t")["state"] for name in ("y", "z")] == ["ABSENT"] * 2
    dead.complete(claimed)
    assert (query.begin(), query.noted) == (1, 0)
    assert [gateway.explain(name, id_set="t")["state"] for name in ("x", "left")] == ["ABSENT"] * 2


def test_a_batch_that_a_later_one_has_followed_is_acked_without_its_ids(
    gateway: Gateway, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Two writes of a stream, one by sequence and one by id; the note of the later batch was sent first."""
    query = Query(gateway, tmp_path)
    query.commit(4, query.write(4, lane("a", 1)))
    (file,) = (query.folder / "oncegate" / "acks").iterdir()
    file.write_text(json.dumps({**json.loads(file.read_text()), "is_scoped": True}))
    with gateway.driver("q", acks.token_of("run-1")) as driver:
        driver.ack({}, batch=5)
    query.log(4)
    assert query.begin() == 1
    assert "the ids of batch 4 are not acked with it" in caplog.text
    assert (query.standing(), query.noted) == ((1, []), 0)


def test_ids_without_a_scope_are_forgotten_by_no_ack(gateway: Gateway, tmp_path: Path) -> None:
    query = Query(gateway, tmp_path, **{name: value for name, value in SCOPED.items() if name != "scope"})
    query.commit(4, query.write(4, lane("x", 1)))
    query.log(4)
    assert (query.noted, query.begin()) == (0, 0)
    assert gateway.explain("x", id_set="t")["state"] == "DONE"


def test_a_scope_needs_a_batch(gateway: Gateway, tmp_path: Path) -> None:
    writer: Any = writer_of(Query(gateway, tmp_path, **SCOPED).options, None)
    with pytest.raises(TaskFailed, match="not in a batch of a streaming query"):
        writer.write(iter([lane("x", 1)]), new_token(), Task())


def test_where_the_offset_log_is_written_late_nothing_is_written_or_committed(query: Query) -> None:
    """Real-time mode: when the batch began, the newest entry was that of another batch."""
    writer: Any = writer_of(query.options, BatchInput(3, "aa", None))
    with pytest.raises(TaskFailed, match=r"real-time mode.*nothing was written by this task"):
        writer.write(iter([lane("a", 1)]), new_token(), Task(query="q", batch="4", run="r"))
    message = query.write(3, lane("a", 1))
    with pytest.raises(BrokenMessages, match="real-time mode"):
        query.commit(4, message)
    assert query.noted == 0


def test_without_a_checkpoint_here_the_log_warns_that_nothing_will_be_acked(
    query: Query, caplog: pytest.LogCaptureFixture
) -> None:
    options = {
        "url": query.gateway.url,
        "namespace": query.gateway.namespace,
        "checkpointLocation": "s3://b/c",
        **LANES,
    }
    writer: Any = writer_of(Options.read(options), None)
    message = writer.write(iter([lane("a", 1)]), new_token(), Task(query="q", batch="0", run="r"))
    writer.commit([message], 0)
    assert "batch 0 is not acked" in caplog.text


def test_inside_foreach_batch_the_batch_before_is_acked_first(query: Query) -> None:
    query.commit(0, query.write(0, lane("a", 1)))
    query.log(0)
    (query.folder / "offsets").mkdir()
    (query.folder / "offsets" / "1").write_text("v1")
    noted = foreach_batch(lambda df, batch: None, checkpoint=str(query.folder))
    noted(Frame(), 1)
    assert query.standing() == (1, [])
