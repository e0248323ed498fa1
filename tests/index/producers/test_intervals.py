"""Intervals equal a dictionary of sequences, in as few pieces as possible."""

import os
import random
from itertools import pairwise

import numpy as np
import pytest

from oncegate.index.producers.intervals import Intervals, count_of, flat, raw_spans, spans_of
from tests.support.index.sequences import u64

SEED = int(os.environ.get("ONCEGATE_SEED", "20261121"))
TOP = 2**64 - 2


def contents(intervals: Intervals) -> dict[int, int]:
    """Returns every sequence with its label. Raises AssertionError if pieces are out of order or could be merged."""
    rows = list(zip(intervals.first.tolist(), intervals.last.tolist(), intervals.label.tolist(), strict=True))
    for (_, last, label), (first, _, next_label) in pairwise(rows):
        assert first > last
        assert first > last + 1 or label != next_label, "two pieces that are one"
    return {sequence: label for first, last, label in rows for sequence in range(first, last + 1)}


def test_painting_is_what_a_dictionary_does() -> None:
    print(f"ONCEGATE_SEED={SEED}")
    for seed in range(SEED, SEED + 40):
        rng, intervals = random.Random(seed), Intervals.empty()
        expected: dict[int, int] = {}
        for _ in range(30):
            chosen, label = sorted(rng.sample(range(60), rng.randrange(1, 20))), rng.randrange(3)
            intervals = intervals.painted(spans_of(u64(chosen)), label)
            expected.update(dict.fromkeys(chosen, label))
            expected = {sequence: held for sequence, held in expected.items() if held}
            assert contents(intervals) == expected, f"seed {seed}"
            found = intervals.find(u64(range(60))).tolist()
            assert found == [expected.get(sequence, 0) for sequence in range(60)], f"seed {seed}"
            watermark = rng.randrange(60)
            above = {sequence: held for sequence, held in expected.items() if sequence > watermark}
            assert contents(intervals.above(watermark)) == above, f"seed {seed}"


def test_other_labels_join_what_has_become_one() -> None:
    intervals = Intervals.empty().painted(u64([1, 2]).reshape(-1, 2), 1).painted(u64([3, 4]).reshape(-1, 2), 2)
    assert len(intervals) == 2
    assert contents(intervals.relabelled(u64([2, 2]))) == {1: 2, 2: 2, 3: 2, 4: 2}
    assert len(intervals.relabelled(u64([2, 2]))) == 1
    assert contents(intervals.relabelled(u64([0, 2]))) == {3: 2, 4: 2}


def test_the_highest_sequences_are_as_good_as_others() -> None:
    intervals = Intervals.empty().painted(u64([TOP - 1, TOP]).reshape(-1, 2), 5)
    assert intervals.find(u64([TOP - 2, TOP - 1, TOP])).tolist() == [0, 5, 5]
    assert intervals.painted(u64([TOP, TOP]).reshape(-1, 2), 0).last.tolist() == [TOP - 1]
    assert contents(intervals.painted(u64([0, 0]).reshape(-1, 2), 5)) == {0: 5, TOP - 1: 5, TOP: 5}
    assert len(intervals.above(TOP)) == 0


def test_older_intervals_stay_unchanged() -> None:
    before = Intervals.empty().painted(u64([1, 9]).reshape(-1, 2), 1)
    before.painted(u64([3, 5]).reshape(-1, 2), 2)
    before.above(4)
    assert contents(before) == dict.fromkeys(range(1, 10), 1)


@pytest.mark.parametrize(
    ("sequences", "spans"),
    [([], []), ([4], [[4, 4]]), ([1, 2, 3], [[1, 3]]), ([1, 3, 4, 9], [[1, 1], [3, 4], [9, 9]]), ([TOP], [[TOP, TOP]])],
    ids=str,
)
def test_sequences_as_spans(sequences: list[int], spans: list[list[int]]) -> None:
    found = spans_of(u64(sequences))
    assert found.tolist() == spans
    assert count_of(found) == len(sequences)
    assert raw_spans(found.astype("<u8").tobytes()).tolist() == spans


def test_pairs_as_an_entry_holds_them() -> None:
    assert raw_spans(flat({7: 2**40, 3: 1})).tolist() == [[7, 2**40], [3, 1]]
    assert raw_spans(flat({})).shape == (0, 2)


def test_a_lane_without_holes_is_one_piece_however_long() -> None:
    intervals = Intervals.empty()
    for begin in range(0, 1_000_000, 10_000):
        intervals = intervals.painted(u64([begin, begin + 9_999]).reshape(-1, 2), 3)
    assert len(intervals) == 1
    assert intervals.find(np.arange(5, dtype=np.uint64)).tolist() == [3] * 5
