"""Extrapolation to a billion ids: a rate that falls only with the bytes that merges write."""

from dataclasses import dataclass

import pytest

from bench.scale.model import Growth, Prices, fitted, record_writes, seconds_at
from oncegate.engine.limits import Limits

MILLION = 1_000_000


@dataclass(frozen=True)
class Done:
    window_ids: int
    written_bytes: int


def some_windows(count: int = 40) -> list[Done]:
    """Returns windows, every third with a merge."""
    return [Done(MILLION, 50 * MILLION + (n % 3 == 0) * 300 * MILLION + n * MILLION) for n in range(count)]


def test_the_prices_of_an_id_and_of_a_byte_are_fitted_separately() -> None:
    windows = some_windows()
    found = fitted(windows, [3e-7 * one.window_ids + 2e-10 * one.written_bytes for one in windows])
    assert (found.each_s, found.byte_s) == (pytest.approx(3e-7), pytest.approx(2e-10))
    assert found.residual == pytest.approx(0, abs=1e-9)


def test_what_no_price_explains_is_the_residual() -> None:
    windows = some_windows()
    found = fitted(windows, [0.5 + 0.1 * (-1) ** number for number in range(len(windows))])
    assert found.residual == pytest.approx(0.2, rel=0.05)


def test_no_price_is_below_zero() -> None:
    """If windows that wrote more were by chance faster, bytes cost nothing, and an id costs its average."""
    windows = some_windows()
    found = fitted(windows, [0.9 - 1e-9 * one.written_bytes for one in windows])
    assert found.byte_s == 0
    assert found.each_s == pytest.approx(sum(0.9 - 1e-9 * one.written_bytes for one in windows) / 40 / MILLION)
    with pytest.raises(ValueError, match="no windows"):
        fitted([], [])


def test_records_are_written_again_by_merges_ever_more_often_but_far_less_than_in_proportion() -> None:
    """With merges of four runs: roughly the cube root of the number of rounds."""
    each = [record_writes(rounds * MILLION, MILLION) / rounds / MILLION for rounds in (3, 30, 250, 1_000)]
    assert each[0] == 1, "up to three runs nothing is merged"
    assert each == sorted(each)
    assert each[-1] < 20 < each[1] * 10


def test_a_billion_costs_its_ids_and_what_their_merges_write() -> None:
    growth = Growth(110 * MILLION, 100 * MILLION, 70 * MILLION, 14, 8_000 * MILLION)
    here = seconds_at(100 * MILLION, Prices(4e-7, 1e-10, 0.0), growth)
    assert here == pytest.approx(4e-7 * 110 * MILLION + 0.8), "the prediction equals the measurement"
    free = seconds_at(1_000 * MILLION, Prices(4e-6, 0.0, 0.0), growth)
    paid = seconds_at(1_000 * MILLION, Prices(4e-6, 1e-10, 0.0), growth)
    assert free == pytest.approx(4_400)
    more = record_writes(970 * MILLION, 5 * MILLION) / record_writes(70 * MILLION, 5 * MILLION)
    assert paid - free > 10 * 0.8, "a byte of runs is written more often"
    assert paid - free < more * 0.8


def test_no_billion_is_faster_than_its_merges_may_write() -> None:
    growth = Growth(110 * MILLION, 100 * MILLION, 70 * MILLION, 14, 8_000 * MILLION)
    seconds = seconds_at(1_000 * MILLION, Prices(1e-9, 0.0, 0.0), growth)
    written = 16 * record_writes(970 * MILLION, 5 * MILLION)
    assert seconds == pytest.approx(written / Limits().merge_bytes_per_second)


def test_a_run_in_which_no_id_left_memory_merges_nothing() -> None:
    growth = Growth(110 * MILLION, 100 * MILLION, 0, 0, 2_000 * MILLION)
    assert seconds_at(1_000 * MILLION, Prices(4e-7, 1e-10, 0.0), growth) == pytest.approx(440 + 2)
