"""A task sends one item while it makes the next: in order, one at a time, and within its limit."""

import threading
from collections.abc import Iterator

import pytest

from oncegate_spark.spark.writers.common import pipelined


def test_each_item_comes_with_what_became_of_it_in_order() -> None:
    assert list(pipelined(lambda n: n * n, range(5))) == [(n, n * n) for n in range(5)]
    assert list(pipelined(str, [])) == []


def test_the_next_item_is_made_while_work_is_at_this_one() -> None:
    made = [threading.Event() for _ in range(3)]

    def items() -> Iterator[int]:
        for number, event in enumerate(made):
            event.set()
            yield number

    def work(number: int) -> bool:
        return number == 2 or made[number + 1].wait(20)

    assert list(pipelined(work, items())) == [(0, True), (1, True), (2, True)]


def test_an_error_of_the_items_comes_after_all_that_was_made_of_those_before() -> None:
    def items() -> Iterator[int]:
        yield 0
        yield 1
        raise OSError("no third")

    done: list[int] = []
    with pytest.raises(OSError, match="no third"):
        done.extend(item for item, _ in pipelined(str, items()))
    assert done == [0, 1]


def test_after_an_error_of_the_work_no_more_of_it_is_done() -> None:
    tried: list[int] = []

    def work(number: int) -> int:
        tried.append(number)
        return 1 // (1 - number)

    done: list[int] = []
    with pytest.raises(ZeroDivisionError):
        done.extend(item for item, _ in pipelined(work, range(9)))
    assert (done, tried) == ([0], [0, 1])


def test_nothing_is_in_flight_for_a_caller_that_stops_in_between() -> None:
    tried: list[int] = []
    for item, _ in pipelined(tried.append, range(9)):
        assert tried == list(range(item + 1))
        if item == 2:
            break
    assert tried == [0, 1, 2]
