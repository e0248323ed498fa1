"""Ids of events with a time, and the errors for ids older than the retention of ids."""

import threading

import pytest

from oncegate_spark import Gateway
from oncegate_spark.delivery import Delivered, Delivery, EventIds, FunctionSink, Horizon, Record, time_ms_of
from oncegate_spark.errors import BadId, BadOption

pytestmark = pytest.mark.server
NOW_MS = 1_800_000_000_000


class WallClock:
    """A wall clock that a test sets, also backwards."""

    def __init__(self) -> None:
        self.now_ms = NOW_MS

    def __call__(self) -> int:
        return self.now_ms


def test_ids_of_one_process_grow_also_when_its_clock_goes_back(gateway: Gateway) -> None:
    clock = WallClock()
    ids = EventIds(gateway, "host-1", wall_ms=clock)
    made = [ids.next(), ids.next()]
    clock.now_ms -= 5_000
    made.append(ids.next())
    clock.now_ms += 10_000
    made.append(ids.next())
    assert made == sorted(set(made))
    assert [time_ms_of(one) - NOW_MS for one in made] == [0, 0, 0, 5_000]
    assert [one.split("-")[1] for one in made] == ["0000", "0001", "0002", "0000"], "numbers begin with a millisecond"


def test_a_millisecond_with_more_events_than_numbers_borrows_from_the_next(gateway: Gateway) -> None:
    ids = EventIds(gateway, "host-1", wall_ms=WallClock())
    made = [ids.next() for _ in range(0x1_0003)]
    assert made == sorted(set(made))
    assert [time_ms_of(made[0x1_0000 + at]) - NOW_MS for at in (-1, 0)] == [0, 1], "not one number sooner"
    assert time_ms_of(made[-1]) == NOW_MS + 1


def test_processes_of_one_machine_never_make_the_same_id_twice_whatever_their_clocks(gateway: Gateway) -> None:
    """Covers a process that was paused while others started: its number does not depend on a lease."""
    processes = [EventIds(gateway, "host-1", wall_ms=WallClock()) for _ in range(3)]
    made = [ids.next() for _ in range(2) for ids in processes]
    assert len(set(made)) == 6
    assert [ids.process for ids in processes] == [1, 2, 3]
    assert EventIds(gateway, "host-2").next() not in made


def test_threads_of_one_process_share_its_ids(gateway: Gateway) -> None:
    ids, made = EventIds(gateway, wall_ms=WallClock()), []
    threads = [threading.Thread(target=lambda: made.extend(ids.next() for _ in range(500))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == 2_000


def test_an_id_older_than_the_horizon_is_stale_and_not_written_as_new(gateway: Gateway) -> None:
    gateway.create_namespace(horizon_ms=3_600_000)
    clock, written = WallClock(), list[str]()
    ids = EventIds(gateway, "host-1", wall_ms=clock)
    old = Record(ids.next())
    clock.now_ms += 3_600_000 - 60_000 - 1
    horizon = Horizon(gateway, wall_ms=clock)
    assert horizon.stale([old.id]) == set()
    clock.now_ms += 1
    new = Record(ids.next())
    sink = FunctionSink(lambda records: written.extend(record.id for record in records))
    assert Delivery(gateway, sink, horizon=horizon).deliver([old, new]) == Delivered(written=1, stale=1)
    assert written == [new.id]
    assert gateway.explain(old.id)["state"] == "ABSENT"


def test_without_a_horizon_nothing_is_stale(gateway: Gateway) -> None:
    clock = WallClock()
    old = EventIds(gateway, "host-1", wall_ms=clock).next()
    clock.now_ms += 10**11
    assert Horizon(gateway, wall_ms=clock).stale([old]) == set()


def test_a_horizon_that_the_clocks_might_miss_altogether_makes_all_stale(gateway: Gateway) -> None:
    gateway.create_namespace(horizon_ms=3_600_000)
    clock = WallClock()
    new = EventIds(gateway, "host-1", wall_ms=clock).next()
    assert Horizon(gateway, wall_ms=clock, skew_ms=3_600_001).stale([new]) == {new}


@pytest.mark.parametrize("one", ["", "order-41", "018cc251f400-0000-1@", "018cc251f400-0000-1@a b"])
def test_an_id_that_carries_no_time_is_refused(gateway: Gateway, one: str) -> None:
    with pytest.raises(BadId, match="contain its time"):
        Horizon(gateway).stale([one])


def test_a_name_of_a_server_that_would_not_be_read_back_is_refused(gateway: Gateway) -> None:
    with pytest.raises(BadOption, match="server"):
        EventIds(gateway, "host 1")
