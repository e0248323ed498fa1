"""Pages of intervals: together they contain each interval of each list once, in order."""

import random

import numpy as np
import pytest

from oncegate.arraytypes import U64
from oncegate.transports.pages import page_of_intervals

SEED = 20_261_122
LARGEST = 2**64 - 2


def intervals(spans: list[tuple[int, int]]) -> U64:
    return np.array(spans, np.uint64).reshape(-1, 2)


def all_pages(lists: list[U64], limit: int) -> list[list[list[int]]]:
    found: list[list[list[int]]] = [[] for _ in lists]
    after: int | None = None
    while True:
        pages, following = page_of_intervals(lists, after, limit)
        for whole, piece in zip(found, pages, strict=True):
            assert len(piece) <= limit
            whole += piece.tolist()
        if following is None:
            return found
        assert after is None or following > after
        after = following


@pytest.mark.parametrize("limit", [1, 2, 3, 10])
def test_each_interval_is_on_one_page(limit: int) -> None:
    print(f"seed {SEED}")
    rng = random.Random(SEED + limit)
    for _ in range(300):
        ends = sorted(rng.sample(range(200), 2 * rng.randrange(20)))
        spans = list(zip(ends[::2], ends[1::2], strict=True))
        kinds = [rng.randrange(2) for _ in spans]
        lists = [intervals([span for span, kind in zip(spans, kinds, strict=True) if kind == k]) for k in (0, 1)]
        assert all_pages(lists, limit) == [spans.tolist() for spans in lists]


def test_the_largest_sequences_have_a_page_too() -> None:
    spans = intervals([(0, 0), (2**53 + 1, 2**53 + 1), (LARGEST, LARGEST)])
    assert all_pages([spans, intervals([])], 1)[0] == spans.tolist()


def test_as_many_as_fit_are_the_last_page() -> None:
    spans = intervals([(1, 1), (3, 3)])
    assert page_of_intervals([spans], None, 2)[1] is None
    assert page_of_intervals([spans], None, 1)[1] == 1
