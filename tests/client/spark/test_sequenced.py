"""Rows by lane and sequence against a real gateway: in order, once, and never green for another's rows."""

import pickle
from contextlib import closing
from typing import Any

import pyarrow as pa
import pytest

from oncegate_spark import Gateway
from oncegate_spark.errors import (
    BadId,
    Fenced,
    Gap,
    NoIdentity,
    OncegateError,
    Outcome,
    OutOfOrder,
    ProducerBusy,
    SourceReplaced,
    StillBusy,
    TaskFailed,
)
from oncegate_spark.protocol.effort import new_token
from oncegate_spark.spark.options import Options
from oncegate_spark.spark.task_identity import Task
from oncegate_spark.spark.writers import writer_of
from oncegate_spark.spark.writers.claim_loop import ClaimProgress, Write
from oncegate_spark.spark.writers.sequenced import Lanes, LaneSettler
from tests.support.client_clock import SteppedClock
from tests.support.lane_rows import LANES, TASK, Kept, lane, rows
from tests.support.producer_answers import registered
from tests.support.stub_gateway import Answer, Asked, StubGateway, problem
from tests.support.verdicts import BUSY, GRANTED, packed

pytestmark = pytest.mark.server
NAMES = ("lane", "at")


@pytest.fixture
def kept() -> list[tuple[str, int]]:
    Kept.rows = []
    return Kept.rows


def settler(gateway: Gateway, write: Write, lease_ms: int | None = None) -> closing[LaneSettler]:
    lanes = Lanes(gateway, NAMES, "sink", "q", new_token(), lease_ms)
    return closing(LaneSettler(gateway, lanes, write, ClaimProgress()))


def test_rows_of_several_lanes_are_written_lane_by_lane_and_in_order(gateway: Gateway, kept: Any) -> None:
    with settler(gateway, Kept().write) as one:
        one.settle(rows(("a", 1), ("b", 7), ("a", 2), ("b", 9)))
        one.settle(rows(("a", 5), ("c", 0)))
        assert one.upto == {"a@sink": 5, "b@sink": 9, "c@sink": 0}
        assert (one.progress.row_count, one.progress.written, one.progress.suppressed) == (6, 6, 0)
    assert Kept.rows == [("a", 1), ("a", 2), ("b", 7), ("b", 9), ("a", 5), ("c", 0)]
    explained = gateway.producer("a@sink", driver="q").explain()
    assert (explained["lease_left_ms"], explained["done"], explained["open"]) == (0, [[1, 2], [5, 5]], [])


def test_a_retry_drops_what_is_written_and_writes_the_rest(gateway: Gateway, kept: Any) -> None:
    with settler(gateway, Kept().write) as first:
        first.settle(lane("a", 1, 2))
    with settler(gateway, Kept().write) as again:
        again.settle(lane("a", 1, 2, 3))
        assert (again.progress.written, again.progress.suppressed, again.progress.takeovers) == (1, 2, 0)
    assert Kept.rows == [("a", 1), ("a", 2), ("a", 3)]


def test_first_rows_that_another_epoch_has_written_are_counted_until_the_first_that_is_new(
    gateway: Gateway, kept: Any
) -> None:
    with settler(gateway, Kept().write) as first:
        first.settle(rows(("a", 1), ("a", 2), ("a", 4), ("b", 7)))
        assert first.leading == {}
    with settler(gateway, Kept().write) as again:
        again.settle(lane("a", 1))
        again.settle(lane("a", 2))
        assert again.leading == {"a@sink": 2}
        again.settle(lane("a", 4, 5))
        assert again.leading == {"a@sink": 3}
        again.settle(lane("a", 6, 7))
        again.settle(lane("b", 8))
        assert again.leading == {"a@sink": 3}


def test_rows_of_a_topic_that_was_made_again_are_refused_and_a_name_of_its_own_takes_them(
    gateway: Gateway, kept: Any
) -> None:
    first, second = "#AbCdEfGhIjKlMnOpQr_-uv", "#ZzCdEfGhIjKlMnOpQr_-uv"
    with settler(gateway, Kept().write) as before:
        before.settle(lane("a-3", 1, 2))
    with settler(gateway, Kept().write) as named:
        named.settle(lane(f"a-3{first}", 1, 2, 3))
        assert (named.progress.written, named.progress.suppressed) == (1, 2), "rows written earlier count as its own"
        assert named.upto == {"a-3@sink": 3}
    with settler(gateway, Kept().write) as again, pytest.raises(SourceReplaced, match=r'prefix="<a new text>-"'):
        again.settle(lane(f"a-3{second}", 1, 2))
    with settler(gateway, Kept().write) as anew:
        anew.settle(lane(f"again-a-3{second}", 1, 2))
        assert anew.progress.written == 2
    assert [sequence for _, sequence in Kept.rows] == [1, 2, 3, 1, 2]


def test_rows_of_a_dead_attempt_are_taken_over_and_counted(gateway: Gateway, kept: Any) -> None:
    dead = gateway.producer("a@sink", driver="q")
    dead.register()
    dead.claim([1, 2])
    dead.close()
    with settler(gateway, Kept().write) as one:
        one.settle(lane("a", 1, 2))
        assert (one.progress.written, one.progress.takeovers) == (2, 2)
    with pytest.raises(Fenced):
        dead.claim([3])


def test_a_twin_waits_for_the_attempt_that_lives_and_then_finds_its_rows_done(gateway: Gateway, kept: Any) -> None:
    """Two attempts of one task: the later one continues when the first closes."""
    first = gateway.producer("a@sink", driver="q", lease_ms=1_000)
    first.register()
    claimed = first.claim([1, 2])
    with pytest.raises(ProducerBusy):
        gateway.run(gateway.producer("a@sink", driver="q")._calls._register())
    first.complete(claimed)
    first.close()
    with settler(gateway, Kept().write) as twin:
        twin.settle(lane("a", 1, 2))
        assert twin.progress.suppressed == 2
    assert Kept.rows == []


@pytest.mark.parametrize(
    "batches",
    [
        [lane("a", 2, 1)],
        [lane("a", 1, 1)],
        [lane("a", 1, 2), lane("a", 2, 3)],
        [lane("a", 5), rows(("b", 1), ("a", 4))],
    ],
    ids=["shuffled", "twice", "over batches", "another lane between"],
)
def test_rows_out_of_order_fail_the_task_before_any_effect_of_their_batch(
    gateway: Gateway, kept: Any, batches: list[pa.RecordBatch]
) -> None:
    with settler(gateway, Kept().write) as one:
        for batch in batches[:-1]:
            one.settle(batch)
        before = list(Kept.rows)
        with pytest.raises(OutOfOrder, match=r"contiguous range.*Kafka source.*idCol.*staged"):
            one.settle(batches[-1])
        assert Kept.rows == before


def test_a_lane_that_is_split_over_tasks_is_found_out_by_the_gateway(gateway: Gateway, kept: Any) -> None:
    """The later half came first: its task is right, and the other one must not be green."""
    with settler(gateway, Kept().write) as later:
        later.settle(lane("a", 50, 51))
    with settler(gateway, Kept().write) as earlier, pytest.raises(OutOfOrder, match="split over tasks"):
        earlier.settle(lane("a", 0, 1))
    assert Kept.rows == [("a", 50), ("a", 51)]


def test_between_two_claims_of_a_lane_the_last_one_seen_is_named_and_none_before_the_first(kept: Any) -> None:
    """A task does not vouch for sequences that it has not seen."""
    answers = [registered(), granted(2), settled(), granted(1), settled()]
    with StubGateway(*answers) as stub, Gateway(stub.url) as gateway:
        with settler(gateway, Kept().write) as one:
            one.settle(lane("a", 17, 20))
            one.settle(lane("a", 30))
        claims = [asked.headers for asked in stub.asked if asked.path.endswith(":claim")]
    assert [asked.get("oncegate-prev-sequence") for asked in claims] == [None, "20"]


def granted(count: int) -> Answer:
    return Answer(body=packed([GRANTED] * count, lease_ms=30_000))


def settled() -> Answer:
    return Answer(body=b'{"call": 0, "state": "DONE", "settled": 1, "lease_ms": 0}')


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (Answer(body=packed([BUSY])), StillBusy),
        (problem(409, "FENCED", "stop"), Fenced),
        (problem(409, "GAP", "stop"), Gap),
        (problem(409, "OUT_OF_ORDER", "stop"), OutOfOrder),
    ],
    ids=["BUSY", "FENCED", "GAP", "OUT_OF_ORDER"],
)
def test_a_task_that_must_wait_or_stop_never_reports_success(
    kept: Any, answer: Answer, kind: type[OncegateError]
) -> None:
    """Spark takes the first success: an empty one would kill the attempt that does the work."""
    with StubGateway(registered(), answer) as stub:
        writer: Any = writer_of(Options.read({"url": stub.url, **LANES}), None)
        with pytest.raises(TaskFailed) as raised:
            writer.write(iter([lane("a", 1)]), new_token(), TASK)
    assert isinstance(raised.value.__cause__, kind)
    assert raised.value.outcome is Outcome.NOT_WRITTEN
    assert Kept.rows == []


def test_a_completion_that_is_fenced_is_unknown_and_no_success(kept: Any) -> None:
    with StubGateway(registered(), granted(1), problem(409, "FENCED", "stop")) as stub:
        writer: Any = writer_of(Options.read({"url": stub.url, **LANES}), None)
        with pytest.raises(TaskFailed, match="passed to the sink and are not known") as raised:
            writer.write(iter([lane("a", 1)]), new_token(), TASK)
    assert raised.value.outcome is Outcome.UNKNOWN
    assert Kept.rows == [("a", 1)]


@pytest.mark.parametrize(
    ("batch", "told"),
    [
        (pa.RecordBatch.from_pydict({"lane": pa.array([None], pa.string()), "at": [1]}), "no producer"),
        (pa.RecordBatch.from_pydict({"lane": [""], "at": [1]}), "no producer"),
        (pa.RecordBatch.from_pydict({"lane": ["a"], "at": pa.array([None], pa.int64())}), "sequenceCol at: 1 of 1"),
        (pa.RecordBatch.from_pydict({"lane": ["a"], "at": [-1]}), "sequenceCol at"),
    ],
)
def test_a_row_without_a_place_is_refused_before_anything_is_asked(batch: pa.RecordBatch, told: str) -> None:
    with (
        StubGateway() as stub,
        Gateway(stub.url) as gateway,
        settler(gateway, Kept().write) as one,
        pytest.raises(BadId, match=told),
    ):
        one.settle(batch)
    assert stub.asked == []


def test_a_source_goes_to_two_targets_whole(gateway: Gateway, kept: Any) -> None:
    """Two writes of one batch inside foreachBatch: a lane connects a part of the source with one target."""
    given = {"url": gateway.url, "namespace": gateway.namespace, "producerCol": "lane", "sequenceCol": "at"}
    by_topic = {"write": "ids", **given}
    targets = [{**by_topic, "topic": "raw"}, {**by_topic, "topic": "enriched"}, {**given, **LANES}]
    targets.append({**given, **LANES, "topic": "archive"})
    for options in targets:
        writer: Any = writer_of(Options.read(options), None)
        first, again = (writer.write(iter([lane("a", 1, 2)]), new_token(), TASK) for _ in range(2))
        assert (first.written, again.written, again.suppressed) == (2, 0, 2)
    names = [Options.read(options).target for options in targets]
    assert names == ["raw", "enriched", "tests.support.lane_rows%3AKept//", "tests.support.lane_rows%3AKept//archive"]
    assert Kept.rows == [("a", 1), ("a", 2)] * 2


def test_outside_a_stream_an_owner_of_the_retries_must_be_named(gateway: Gateway, kept: Any) -> None:
    options = {"url": gateway.url, "namespace": gateway.namespace, **LANES}
    writer: Any = writer_of(Options.read(options), None)
    with pytest.raises(TaskFailed, match=r'option\("txnAppId"') as raised:
        writer.write(iter([lane("a", 1)]), new_token(), Task())
    assert isinstance(raised.value.__cause__, NoIdentity)
    named: Any = pickle.loads(pickle.dumps(writer_of(Options.read({**options, "txnAppId": "load"}), None)))
    assert named.write(iter([lane("a", 1)]), new_token(), Task()).written == 1
    name = f"a@{named.options.target}"
    assert gateway.producer(name, driver="load").explain()["driver"] == "load"


@pytest.mark.parametrize(
    ("answered_after_ms", "renewed"), [(14_999, False), (15_000, True), (29_000, True)], ids=["fresh", "half", "late"]
)
def test_no_write_of_a_lane_starts_when_half_its_lease_is_spent(
    kept: Any, answered_after_ms: int, renewed: bool
) -> None:
    """A renewal reveals that: a twin may have taken over the lane and written."""
    clock = SteppedClock()

    def answer(asked: Asked) -> Answer:
        if asked.path.endswith(":register"):
            return registered()
        if asked.path.endswith(":claim"):
            clock.now_ms += answered_after_ms
            return granted(1)
        return problem(409, "FENCED", "stop") if asked.path.endswith(":renew") else settled()

    with StubGateway(otherwise=answer) as stub, Gateway(stub.url, clock=clock) as gateway:
        with settler(gateway, Kept().write) as one:
            if renewed:
                with pytest.raises(Fenced):
                    one.settle(lane("a", 1))
            else:
                one.settle(lane("a", 1))
        verbs = [asked.path.rsplit(":", 1)[-1] for asked in stub.asked]
    assert Kept.rows == ([] if renewed else [("a", 1)])
    assert verbs[2] == ("renew" if renewed else "complete")
