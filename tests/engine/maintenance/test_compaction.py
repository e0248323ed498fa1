"""The choice of runs to merge, and the metadata of a file."""

import random

import pytest

from oncegate.engine.maintenance.compaction import to_merge
from oncegate.engine.maintenance.run_files import spans
from oncegate.index.lsm.tier import RUNS_MAX


@pytest.mark.parametrize(
    ("sizes", "merged"),
    [
        ([], None),
        ([8, 4, 2], None),
        ([100, 10, 1, 1], [1, 1]),
        ([100, 3, 1, 1], [3, 1, 1]),
        ([8, 4, 2, 1], [8, 4, 2, 1]),
        ([100, 20, 4, 1], [4, 1]),
    ],
)
def test_the_newest_runs_become_one_when_there_are_as_many_as_there_may_be(
    sizes: list[int], merged: list[int] | None
) -> None:
    gone = to_merge([(size, size) for size in sizes])
    assert (gone and sizes[gone]) == merged


def test_a_mostly_forgotten_run_is_rewritten_by_itself() -> None:
    assert to_merge([(10, 10), (4, 10), (1, 1)]) == slice(1, 2)
    assert to_merge([(10, 10), (5, 10)]) is None


@pytest.mark.parametrize(("rounds", "times"), [(250, 10), (1_000, 18)])
def test_each_id_is_written_a_few_times_however_many_rounds_there_are(rounds: int, times: int) -> None:
    sizes: list[int] = []
    written = 0
    for _ in range(rounds):
        sizes.append(1)
        written += 1
        while (gone := to_merge([(size, size) for size in sizes])) is not None:
            sizes[gone] = [sum(sizes[gone])]
            written += sizes[gone.start]
        assert len(sizes) < RUNS_MAX
    assert written / rounds < times


def test_numbers_are_reported_as_spans() -> None:
    rng = random.Random(7)
    for _ in range(100):
        numbers = sorted(rng.sample(range(40), rng.randrange(20)))
        assert [number for first, last in spans(numbers) for number in range(first, last + 1)] == numbers
    assert spans([3, 4, 5, 9]) == [(3, 5), (9, 9)]
