"""Granted rows into sinks that can be asked: possible writes of a dead attempt are looked up, not repeated."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from oncegate_spark import Gateway, InDoubt, SinkRefused
from oncegate_spark.delivery import FunctionSink, Record
from oncegate_spark.errors import BadOption, PayloadConflict
from oncegate_spark.sinks import Deliver
from oncegate_spark.spark.options import Options
from oncegate_spark.spark.writers.claim_loop import ClaimProgress
from oncegate_spark.spark.writers.settler import AskingSettler
from oncegate_spark.sync.attempt import Attempt
from oncegate_spark.sync.lease import Holder

pytestmark = pytest.mark.server
Fault = Callable[["Shelf", Sequence[Record]], None]


class Shelf:
    """A sink that keeps its records in order. `faults` are called in turn with the records, before they are written."""

    def __init__(self, *faults: Fault) -> None:
        self.held: list[Record] = []
        self.asked: list[list[str]] = []
        self.faults = list(faults)

    def write(self, records: Sequence[Record]) -> None:
        if self.faults:
            self.faults.pop(0)(self, records)
        self.held += records

    def find(self, ids: Sequence[str]) -> set[str]:
        self.asked.append(list(ids))
        return set(ids) & set(self.ids)

    @property
    def ids(self) -> list[str]:
        return [record.id for record in self.held]


def lost_after_one(shelf: Shelf, records: Sequence[Record]) -> None:
    shelf.held.append(records[0])
    raise TimeoutError("after the first")


def refused(shelf: Shelf, records: Sequence[Record]) -> None:
    raise SinkRefused("no such account")


def rows(*ids: str) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"id": list(ids), "value": [f"v-{one}" for one in ids]})


def options(gateway: Gateway, **more: str) -> Options:
    given = {"url": gateway.url, "write": "claim", "idCol": "id", "sink": "any:where", "leaseMs": "1000", **more}
    return Options.read({name: text for name, text in given.items() if text})


@contextmanager
def settler(
    gateway: Gateway, shelf: Shelf, body: Any = "value", records_max: int = 10, **more: str
) -> Iterator[AskingSettler]:
    sink = FunctionSink(shelf.write, shelf.find, records_max=records_max)
    made = Deliver(lambda context: sink, body)
    with closing(AskingSettler(Attempt(gateway), made, sink, options(gateway, **more), ClaimProgress())) as one:
        yield one


def died(gateway: Gateway, *ids: str) -> None:
    """Claims ids as a task that then dies."""
    Attempt(gateway).claim(list(ids), 1_000)


def test_rows_of_a_dead_task_are_found_and_the_rest_is_written(gateway: Gateway) -> None:
    shelf = Shelf()
    died(gateway, "a", "b", "c")
    shelf.held.append(Record("b"))
    with settler(gateway, shelf) as one:
        one.settle(rows("a", "b", "c"))
    assert sorted(shelf.ids) == ["a", "b", "c"]
    assert shelf.asked == [["a", "b", "c"]]
    done = one.progress
    assert (done.row_count, done.written, done.suppressed, done.takeovers, done.open) == (3, 2, 1, 0, 0)


def test_rows_without_an_earlier_holder_are_written_without_asking_and_their_body_is_the_column(
    gateway: Gateway,
) -> None:
    shelf = Shelf()
    for _ in range(2):
        with settler(gateway, shelf) as one:
            one.settle(rows("a", "b"))
    assert shelf.held == [Record("a", b"v-a"), Record("b", b"v-b")]
    assert shelf.asked == []
    assert (one.progress.written, one.progress.suppressed) == (0, 2)


def test_a_conflict_beside_what_a_dead_task_has_written_leaves_that_in_doubt(gateway: Gateway) -> None:
    shelf = Shelf()
    with settler(gateway, shelf, digestCols="value") as one:
        one.settle(rows("b"))
    Attempt(gateway).claim(["a"], 1_000, payloads=["v-a"])
    shelf.held.append(Record("a"))  # and dies before it completes
    while gateway.explain("a")["state"] != "CLAIMED_OVER":
        pass
    other = pa.RecordBatch.from_pydict({"id": ["a", "b"], "value": ["v-a", "other"]})
    with settler(gateway, shelf, digestCols="value") as one, pytest.raises(PayloadConflict):
        one.settle(other)
    with settler(gateway, shelf, digestCols="value") as one:
        one.settle(rows("a", "b"))
    assert shelf.ids == ["b", "a"]
    assert shelf.asked == [["a"]]


def test_an_id_has_one_text_whatever_the_sessions_time_zone_or_the_columns_scale(gateway: Gateway) -> None:
    """The driver's machine sets the zone: a restart elsewhere would not find the written rows in the sink."""
    at, price = datetime(2026, 7, 1, 12, 0, 0, 500_000, UTC), Decimal("-100.50")
    shelf, told = Shelf(), set()
    for zone, unit, scale in (("UTC", "us", 2), ("Europe/Berlin", "ms", 18)):
        ids = {"at": pa.array([at], pa.timestamp(unit, zone)), "price": pa.array([price], pa.decimal128(38, scale))}
        some = pa.RecordBatch.from_pydict({**ids, "value": ["v"]})
        with settler(gateway, shelf, idCol="at,price") as one:
            told |= {record.id for record in one.records(some)}
            one.settle(some)
    assert told == {'["2026-07-01T12:00:00.5Z","-100.5"]'}
    assert len(shelf.held) == 1, "as the gateway knows it once"


def test_an_answer_that_was_lost_is_looked_up_before_anything_is_written_again(gateway: Gateway) -> None:
    shelf = Shelf(lost_after_one)
    with settler(gateway, shelf) as one:
        one.settle(rows("a", "b"))
    assert shelf.ids == ["a", "b"]
    assert shelf.asked == [["a", "b"]]


def test_a_refusal_frees_the_claimed_ids_and_reports_that_nothing_was_written(gateway: Gateway) -> None:
    shelf = Shelf(refused)
    with pytest.raises(SinkRefused, match="no such account"), settler(gateway, shelf) as one:
        one.settle(rows("a"))
    assert one.progress.open == 0
    again = Attempt(gateway).claim(["a"], 1_000)
    assert (again.granted, again.in_doubt) == (["a"], [])


def test_a_sink_that_does_not_answer_leaves_the_rows_in_doubt(gateway: Gateway) -> None:
    def silent(ids: Sequence[str]) -> set[str]:
        raise TimeoutError("no answer")

    shelf = Shelf(lost_after_one)
    shelf.find = silent  # type: ignore[method-assign]
    with pytest.raises(InDoubt), settler(gateway, shelf) as one:
        one.settle(rows("a", "b"))
    assert one.progress.open == 2
    later = Shelf()
    with settler(gateway, later) as one:
        one.settle(rows("a", "b"))
    assert later.asked == [["a", "b"]]


def test_a_claim_that_came_late_and_holds_what_is_in_doubt_is_not_released(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next holder of a free id would not learn that a dead task may have written it."""
    shelf, turns = Shelf(), iter([False])
    shelf.held.append(Record("a"))
    died(gateway, "a")
    monkeypatch.setattr(Holder, "fresh", lambda *_: next(turns, True))
    monkeypatch.setattr(Holder, "renew", lambda *_: 1)
    with settler(gateway, shelf) as one:
        one.settle(rows("a"))
    assert shelf.ids == ["a"]


def test_a_claim_has_as_many_rows_as_the_sink_writes_together(gateway: Gateway) -> None:
    sizes: list[int] = []
    shelf = Shelf(*[lambda shelf, records: sizes.append(len(records))] * 3)
    with settler(gateway, shelf, records_max=2) as one:
        one.settle(rows("a", "b", "c", "d", "e"))
    assert sizes == [2, 2, 1]


def test_ids_of_several_columns_are_one_text_and_a_body_may_be_the_row(gateway: Gateway) -> None:
    shelf = Shelf()
    with settler(gateway, shelf, body=None, idCol="shop,order") as one:
        one.settle(pa.RecordBatch.from_pydict({"shop": ["x", "x,1"], "order": [1, 2]}))
    first, second = shelf.held
    assert first == Record('["x","1"]', {"shop": "x", "order": 1})
    assert second == Record('["x,1","2"]', {"shop": "x,1", "order": 2})


def test_rows_without_ids_or_a_body_are_refused_before_anything_is_written(gateway: Gateway) -> None:
    shelf = Shelf()
    by_sequence = settler(gateway, shelf, idCol="", producerCol="p", sequenceCol="s")
    with pytest.raises(BadOption, match="not producerCol"), by_sequence as one:
        one.settle(rows("a"))
    with pytest.raises(BadOption, match="no column value"), settler(gateway, shelf) as one:
        one.settle(rows("a").select(["id"]))
    assert shelf.held == []
