"""Requests and bytes are reserved before a body is read. Limits of a request apply before any effect."""

import asyncio

import pytest

from oncegate.core.errors import BadRequest, Overloaded, QuotaExceeded, TooLarge
from oncegate.engine.admission import QUEUE_MS, QUEUE_REQUESTS, SMALL_ANSWER_BYTES, Admission, Backlog
from oncegate.engine.limits import Limits
from tests.support.memory_gateway import run_ready_tasks, serving, verdicts_of

SMALL = Limits(requests_in_flight=2, bytes_in_flight=100, body_bytes=60)


def test_one_request_more_than_may_be_in_flight_is_refused_at_once() -> None:
    admission = Admission(SMALL)
    with admission.hold(1), admission.hold(1):
        with pytest.raises(Overloaded, match="2 requests"), admission.hold(1):
            pass
        assert admission.requests == 2
    assert (admission.requests, admission.size_bytes) == (0, 0)


def test_bytes_are_reserved_before_they_are_read() -> None:
    admission = Admission(SMALL)
    with admission.hold(60):
        with pytest.raises(Overloaded, match="60 bytes in flight, no room for 41"), admission.hold(41):
            pass
        with admission.hold(40):
            assert admission.size_bytes == 100


def test_a_body_may_grow_until_all_the_room_is_taken_and_no_further() -> None:
    admission = Admission(SMALL)
    admission.enter(60)
    admission.grow(60)
    admission.grow(40)
    assert admission.size_bytes == 100
    with pytest.raises(Overloaded, match="100 bytes in flight, no room for 1 more"):
        admission.grow(1)
    assert admission.size_bytes == 100


def test_a_body_over_the_limit_is_refused_permanently_and_not_temporarily() -> None:
    admission = Admission(SMALL)
    with admission.hold(60), pytest.raises(TooLarge), admission.hold(61):
        pass


def test_room_is_given_back_when_a_request_fails() -> None:
    admission = Admission(SMALL)
    with pytest.raises(ValueError, match="broken"), admission.hold(50):
        raise ValueError("broken")
    assert (admission.requests, admission.size_bytes) == (0, 0)


async def test_too_many_ids_are_refused_before_any_effect() -> None:
    async with serving(ids_per_request=2) as served:
        with pytest.raises(TooLarge, match="3 ids"):
            await served.claim("a", "b", "c")
        assert verdicts_of(await served.claim("a", "b", token=2)) == ["GRANTED", "GRANTED"]


@pytest.mark.parametrize("lease_ms", [0, 999, 900_001])
async def test_a_lease_out_of_bounds_is_refused(lease_ms: int) -> None:
    async with serving() as served:
        with pytest.raises(BadRequest, match="lease"):
            await served.claim("a", lease_ms=lease_ms)
        assert served.disk.appends == []


@pytest.mark.parametrize("lease_ms", [1_000, 900_000])
async def test_the_shortest_and_the_longest_lease_are_given(lease_ms: int) -> None:
    async with serving() as served:
        assert (await served.claim("a", lease_ms=lease_ms)).lease_ms == lease_ms


async def test_more_open_claims_than_may_be_are_refused_but_duplicates_and_busy_are_not() -> None:
    async with serving(open_claims=1) as served:
        await served.claim("a")
        with pytest.raises(QuotaExceeded, match="1 claims of this namespace are open"):
            await served.claim("b", token=2)
        assert verdicts_of(await served.claim("a", token=2)) == ["BUSY"]
        assert verdicts_of(await served.claim("a")) == ["GRANTED"]


def answers_of(bytes_in_flight: int) -> Admission:
    return Admission(Limits(bytes_in_flight=bytes_in_flight))


def test_one_caller_has_an_eighth_of_the_room_for_answers_and_a_first_answer_of_any_size() -> None:
    admission = answers_of(800)
    answers = admission.answers
    assert answers.fits("a", 10_000)
    first = answers.hold("a", 99)
    assert (answers.fits("a", 1), answers.fits("a", 2)) == (True, False)
    assert (answers.fits("b", 701), answers.fits("b", 702)) == (True, False)
    first.release()
    first.release()
    assert (admission.size_bytes, answers.fits("a", 10_000)) == (0, True)


def test_bodies_and_answers_share_the_room() -> None:
    admission = answers_of(100)
    room = admission.answers.hold("a", 60)
    with pytest.raises(Overloaded, match="60 bytes in flight, no room for 41"), admission.hold(41):
        pass
    with admission.hold(40):
        assert not admission.answers.fits("b", 1)
    room.resize(20)
    with admission.hold(80):
        assert admission.size_bytes == 100


def test_a_request_with_a_large_body_is_refused_while_its_caller_reads_nothing_and_a_small_one_is_not() -> None:
    admission = answers_of(8 * SMALL_ANSWER_BYTES)
    room = admission.answers.hold("a", SMALL_ANSWER_BYTES)
    with pytest.raises(Overloaded, match="not read by their caller, a"):
        admission.answers.check("a", SMALL_ANSWER_BYTES + 1)
    admission.answers.check("a", SMALL_ANSWER_BYTES)
    admission.answers.check("b", SMALL_ANSWER_BYTES + 1)
    room.release()
    admission.answers.check("a", SMALL_ANSWER_BYTES + 1)


async def test_a_caller_that_waits_for_room_continues_when_there_is_some_and_keeps_no_other_caller_waiting() -> None:
    admission = answers_of(800)
    answers = admission.answers
    held = answers.hold("a", 100)
    waits = [asyncio.create_task(answers.room("a", size)) for size in (90, 90, 10)]
    await run_ready_tasks(1)
    other = await answers.room("b", 100)
    held.release()
    await run_ready_tasks(1)
    assert [wait.done() for wait in waits] == [True, False, True]
    assert admission.size_bytes == 200
    waits[1].cancel()
    for wait in (waits[0], waits[2]):
        (await wait).release()
    other.release()
    assert admission.size_bytes == 0


async def test_room_that_does_not_come_in_time_is_overloaded_and_nothing_is_left_of_the_wait() -> None:
    admission = answers_of(800)
    held = admission.answers.hold("a", 100)
    with pytest.raises(Overloaded, match="100 bytes of answers are not read by their caller, a"):
        await admission.answers.room("a", 1, 0)
    held.release()
    assert (admission.size_bytes, admission.refused) == (0, 1)


async def test_room_of_an_answer_that_is_dropped_is_given_back() -> None:
    admission = answers_of(800)
    room = await admission.answers.room("a", 50)
    assert admission.size_bytes == 50
    del room
    assert admission.size_bytes == 0


def backlog_of(requests: int, each_ms: int) -> Backlog:
    """Returns a backlog of `requests` requests without bodies that take `each_ms` each."""
    backlog = Backlog()
    for number in range(100):
        backlog.enter(0, number * each_ms)
        backlog.leave(0, (number + 1) * each_ms)
    for _ in range(requests):
        backlog.enter(0, 100 * each_ms)
    return backlog


def test_a_wait_is_the_work_before_a_request_over_the_rate_of_such_work() -> None:
    backlog = Backlog()
    backlog.enter(0, 0)
    backlog.enter(0, 10)
    backlog.leave(0, 49)
    assert backlog.wait_ms == 0, "too little was measured"
    backlog.leave(0, 50)
    assert backlog.wait_ms == 0, "nothing waits"
    backlog.enter(0, 1_000_000)
    backlog.enter(0, 1_000_000)
    assert (backlog.requests, backlog.wait_ms) == (2, 50), "two took 50 ms"
    backlog.enter(16 << 10, 1_000_000)
    assert backlog.wait_ms == 100, "16 KiB are as much work as a decision"
    backlog.leave(0, 1_000_025)
    assert backlog.wait_ms == 75, "time without any is not of the service"


def test_service_that_was_slow_is_forgotten() -> None:
    backlog, now_ms = Backlog(), 0
    for each_ms in (60_000, *[1] * 3_000):
        backlog.enter(0, now_ms)
        now_ms += each_ms
        backlog.leave(0, now_ms)
    backlog.enter(0, now_ms)
    assert backlog.wait_ms == 1


def test_without_a_deadline_a_request_waits_for_15_ms_or_behind_fewer_than_12_others() -> None:
    admission = Admission(Limits())
    admission.queue(backlog_of(QUEUE_MS, 1), None)
    admission.queue(backlog_of(QUEUE_REQUESTS - 1, 10_000), None)
    assert admission.refused == 0
    for long in (backlog_of(QUEUE_MS + 1, 1), backlog_of(QUEUE_REQUESTS, 10_000)):
        with pytest.raises(Overloaded, match=f"{long.requests} requests wait before this one.*nothing was written"):
            admission.queue(long, None)
    assert admission.refused == 2


def test_a_request_that_would_wait_beyond_its_deadline_is_refused_with_a_delay() -> None:
    admission, few = Admission(Limits()), backlog_of(3, 500)
    admission.queue(few, 3_000)
    with pytest.raises(Overloaded, match="for 1500 ms, and it has 2999 ms until the deadline") as refused:
        admission.queue(few, 2_999)
    assert refused.value.extra == {"retry_after_ms": 1_500}
    with pytest.raises(Overloaded) as refused:
        admission.queue(backlog_of(50, 1), 99)
    assert refused.value.extra == {"retry_after_ms": 200}, "not sooner than after another refusal"
    admission.queue(Backlog(), 0)


def test_a_burst_that_is_served_before_its_deadlines_is_not_refused() -> None:
    admission, backlog = Admission(Limits()), backlog_of(0, 75)
    for _ in range(200):
        admission.queue(backlog, 30_000)
        backlog.enter(0, 7_500)
    assert (backlog.wait_ms, admission.refused) == (15_000, 0)
