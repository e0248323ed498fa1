"""Rows with ids against a real gateway: written once, waited for, taken over."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import pyarrow as pa
import pytest

from oncegate_spark import Gateway
from oncegate_spark.errors import BadId, StillBusy
from oncegate_spark.protocol import codecs
from oncegate_spark.protocol.effort import BusyWatch
from oncegate_spark.spark.writers.claim_loop import Settler, Write
from oncegate_spark.sync.attempt import Attempt
from oncegate_spark.sync.clock import SystemClock

pytestmark = pytest.mark.server
LEASE_MS = 1_000


def rows(*ids: str) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"id": pa.array(ids, pa.string()), "n": pa.array(range(len(ids)), pa.int64())})


class Place:
    """Records the written ids in order, and calls `then` with each batch."""

    def __init__(self, then: Write = lambda rows: None) -> None:
        self.ids: list[str] = []
        self.then = then

    def __call__(self, rows: pa.RecordBatch) -> None:
        self.ids += rows.column("id").to_pylist()
        self.then(rows)

    @property
    def counted(self) -> Counter[str]:
        return Counter(self.ids)


@contextmanager
def settler(gateway: Gateway, place: Write, lease_ms: int = LEASE_MS) -> Iterator[Settler]:
    one = Settler(Attempt(gateway), ["id"], place, lease_ms=lease_ms)
    with closing(one):
        yield one


def counters(gateway: Gateway) -> dict[str, int]:
    return dict(gateway.describe()["counters"])


def test_every_row_is_written_once_and_then_known(gateway: Gateway) -> None:
    place = Place()
    for _ in range(2):
        with settler(gateway, place) as one:
            one.settle(rows("a", "b", "a"))
            one.settle(rows("b", "c"))
    assert place.counted == {"a": 1, "b": 1, "c": 1}
    # There is one SAME in each run. In the second all four others are duplicates, in the first `b` is our own work.
    assert (one.progress.row_count, one.progress.written, one.progress.suppressed) == (5, 0, 5)


class WhenWaiting(SystemClock):
    """Calls back when its user first begins to wait."""

    def __init__(self, then: Callable[[], None]) -> None:
        self.then: Callable[[], None] | None = then

    def sleep_ms(self, duration_ms: int) -> None:
        then, self.then = self.then, None
        if then is not None:
            then()
        super().sleep_ms(duration_ms)


def test_granted_ids_are_written_and_completed_before_busy_ones_are_waited_for(gateway: Gateway) -> None:
    """Opposite orders would otherwise wait for each other until a lease ends."""
    states: list[str] = []
    with gateway.attempt() as other:
        claimed = other.claim(["b"], 60_000)

        def waiting() -> None:
            states.append(gateway.explain("a")["state"])
            other.complete(claimed)

        place = Place()
        with (
            Gateway(gateway.url, gateway.namespace, clock=WhenWaiting(waiting)) as client,
            settler(client, place) as one,
        ):
            one.settle(rows("b", "a"))
    assert states == ["DONE"]
    assert place.ids == ["a"]
    assert one.progress.suppressed == 1


def test_a_row_is_done_only_after_its_write_has_returned(gateway: Gateway) -> None:
    states: list[str] = []
    with gateway.twin() as other:
        place = Place(lambda rows: states.append(other.explain("a")["state"]))
        with settler(gateway, place) as one:
            one.settle(rows("a"))
        states.append(other.explain("a")["state"])
    assert states == ["CLAIMED_LIVE", "DONE"]


def test_ids_taken_over_are_written_again_when_the_new_holder_dies(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A green task means that every row is done, not that its own writes returned."""
    monkeypatch.setattr("oncegate_spark.sync.lease.Holder._renewals", lambda *_: None)

    def overtaken(written: pa.RecordBatch) -> None:
        if len(written) == 3:
            with gateway.twin() as other:
                until_granted(Attempt(other), "b")

    place = Place(overtaken)
    with settler(gateway, place) as one:
        one.settle(rows("a", "b", "c"))
    assert place.counted == {"a": 1, "b": 2, "c": 1}
    assert {gateway.explain(name)["state"] for name in "abc"} == {"DONE"}
    assert counters(gateway)["takeovers"] == 2


def until_granted(attempt: Attempt, name: str) -> None:
    """Takes an id over, and dies."""
    for _ in range(1_000):
        if attempt.claim([name], LEASE_MS).granted:
            return
        attempt.gateway.clock.sleep_ms(10)
    raise AssertionError(f"{name} is never granted")


def test_a_dead_holders_rows_are_taken_over_and_counted(gateway: Gateway) -> None:
    Attempt(gateway).claim(["a", "b"], LEASE_MS)
    place = Place()
    with settler(gateway, place) as one:
        one.settle(rows("a", "b", "c"))
    assert place.counted == {"a": 1, "b": 1, "c": 1}
    assert one.progress.takeovers == counters(gateway)["takeovers"] == 2


def test_a_slow_write_keeps_its_lease(gateway: Gateway) -> None:
    """The other attempt asks continuously for two and a half leases, and is granted nothing."""
    busy: list[int] = []

    def slow(written: pa.RecordBatch) -> None:
        with gateway.twin() as other:
            end = gateway.clock.monotonic_ms() + 5 * LEASE_MS // 2
            while gateway.clock.monotonic_ms() < end:
                busy.append(Attempt(other).claim(["a"], LEASE_MS).verdicts.unsettled)
                gateway.clock.sleep_ms(20)

    with settler(gateway, Place(slow)) as one:
        one.settle(rows("a"))
    assert set(busy) == {1}
    assert counters(gateway)["takeovers"] == 0


def test_ids_taken_over_during_the_write_are_asked_for_again(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """No renewals here, as when the network is away: another attempt takes over, writes and completes one of three."""
    monkeypatch.setattr("oncegate_spark.sync.lease.Holder._renewals", lambda *_: None)
    taken = Place()

    def overtaken(written: pa.RecordBatch) -> None:
        if len(written) == 3:
            with gateway.twin() as other, settler(other, taken) as second:
                second.settle(rows("b"))

    place = Place(overtaken)
    with settler(gateway, place) as one:
        one.settle(rows("a", "b", "c"))
    assert place.counted == {"a": 1, "b": 1, "c": 1}
    assert taken.counted == {"b": 1}
    assert counters(gateway)["takeovers"] == 1
    assert one.progress.open == 0


def test_no_write_starts_when_half_the_lease_is_spent(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lease is renewed first; ids taken over until then are released unwritten, and asked for again."""
    place, ages = Place(), []

    def late(holder: object, claimed: object) -> bool:
        if not ages:
            ages.append(1)
            gateway.clock.sleep_ms(LEASE_MS + 200)
            with gateway.twin() as other, settler(other, place) as second:
                second.settle(rows("b"))
            return False
        return True

    monkeypatch.setattr("oncegate_spark.sync.lease.Holder.fresh", late)
    with settler(gateway, place) as one:
        one.settle(rows("a", "b"))
    assert place.counted == {"a": 1, "b": 1}
    assert counters(gateway)["released"] > 0


def test_a_holder_that_renews_for_ever_is_waited_for_and_one_that_hangs_is_not(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    Attempt(gateway).claim(["a"], 60_000)
    monkeypatch.setattr(BusyWatch, "observe", lambda *_: None)
    place = Place()
    with settler(gateway, place) as one, pytest.raises(StillBusy, match="another attempt holds 1 rows"):
        one.settle(rows("a", "b"))
    assert place.ids == ["b"]
    assert "1 rows were written and completed by x; nothing else" in one.progress.outcome("x")[1]


def test_an_error_of_the_sink_leaves_its_rows_unknown_and_releases_nothing(gateway: Gateway) -> None:
    def broken(written: pa.RecordBatch) -> None:
        raise OSError("no space left")

    with settler(gateway, Place(broken)) as one, pytest.raises(OSError, match="no space"):
        one.settle(rows("a", "b"))
    assert one.progress.outcome("x")[1].startswith("unknown: 2 rows were passed to the sink")
    assert gateway.explain("a")["state"] == "CLAIMED_LIVE"
    assert counters(gateway)["released"] == 0


def test_a_bad_id_is_found_before_any_id_of_its_batch_is_asked_for(gateway: Gateway) -> None:
    place = Place()
    with settler(gateway, place) as one:
        with pytest.raises(BadId):
            one.settle(pa.RecordBatch.from_pydict({"id": ["a", None]}))
        with pytest.raises(BadId, match="no column"):
            one.settle(pa.RecordBatch.from_pydict({"key": ["a"]}))
    assert place.ids == []
    assert counters(gateway)["granted"] == 0
    assert one.progress.outcome("x")[1] == "nothing was written by x"


def test_a_batch_over_the_gateways_limits_is_asked_for_in_parts(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(codecs, "IDS_MAX", 10)
    place = Place()
    ids = [f"id-{n % 40}" for n in range(100)]
    with settler(gateway, place) as one:
        one.settle(rows(*ids))
    assert place.counted == Counter(set(ids))


def test_two_attempts_in_opposite_orders_need_no_takeover(gateway: Gateway) -> None:
    ids = [f"id-{n}" for n in range(200)]
    place, threads = Place(), []

    def run(order: list[str]) -> None:
        with gateway.twin() as own, settler(own, place, 30_000) as one:
            for start in range(0, len(order), 20):
                one.settle(rows(*order[start : start + 20]))

    for order in (ids, ids[::-1], ids[100:] + ids[:100]):
        threads.append(threading.Thread(target=run, args=(order,)))
        threads[-1].start()
    for thread in threads:
        thread.join()
    assert place.counted == Counter(ids)
    assert counters(gateway)["takeovers"] == 0


def test_in_shadow_mode_every_row_is_written_as_if_without_claims(gateway: Gateway) -> None:
    gateway.create_namespace(shadow=True)
    place = Place()
    for _ in range(2):
        with settler(gateway, place) as one:
            one.settle(rows("a", "b", "a"))
            assert (one.progress.written, one.progress.suppressed) == (3, 0)
    assert place.counted == {"a": 4, "b": 2}
    counts = counters(gateway)
    assert (counts["duplicates"], counts["granted"], counts["same"]) == (2, 2, 2)
