"""The arithmetic of the bench: comparisons, limits reached, medians, lines."""

import pytest

from bench.report.figures import Figure, Reach, extrapolated, interleaved, judged, line, ratio, read, unanswered, worse


def test_of_rates_more_is_better_and_of_times_less() -> None:
    assert ratio(8e6, 2e6, "ids/s") == 4
    assert ratio(2.0, 8.0, "ms") == 4
    assert ratio(16.0, 72.0, "bytes/id") == 4.5


def test_a_peer_that_did_nothing_gives_no_ratio() -> None:
    assert ratio(8e6, 0, "ids/s") is None
    assert ratio(0.0, 3.0, "ms") is None


@pytest.mark.parametrize(("value", "ok"), [(4e6, True), (3.999e6, False)])
def test_a_rate_reaches_what_was_asked_for_from_above(value: float, ok: bool) -> None:
    figure = judged(Figure("claim", value, "ids/s"), [Reach("claim", None, 4e6)])
    assert (figure.reach, figure.ok) == (4e6, ok)


@pytest.mark.parametrize(("value", "ok"), [(10.0, True), (10.1, False)])
def test_a_time_reaches_what_was_asked_for_from_below(value: float, ok: bool) -> None:
    assert judged(Figure("pause", value, "ms"), [Reach("pause", None, 10)]).ok is ok


def test_beside_a_peer_the_ratio_is_judged_and_not_the_value() -> None:
    reaches = [Reach("claim", None, 1), Reach("claim", "redis*", 8)]
    beside = judged(Figure("claim", 7e6, "ids/s").against("redis-py", 1e6), reaches)
    assert (beside.ratio, beside.reach, beside.ok) == (7, 8, False)


def test_the_first_reach_that_fits_counts() -> None:
    reaches = [Reach("claim, 10,000 ids", "Lua", 8), Reach("claim, *", "Lua", 5)]
    assert judged(Figure("claim, 10,000 ids", 6.0, "ids/s").against("Lua", 1.0), reaches).ok is False
    assert judged(Figure("claim, 1,000 ids", 6.0, "ids/s").against("Lua", 1.0), reaches).ok is True


def test_what_nothing_was_asked_of_is_neither_reached_nor_missed() -> None:
    assert judged(Figure("other", 1.0, "ids/s"), [Reach("claim", None, 4e6)]).ok is None


def test_figures_that_were_requested_but_not_measured_are_named() -> None:
    reaches = [Reach("claim, *", None, 1), Reach("claim, *", "Lua", 1), Reach("pause", None, 1)]
    assert unanswered([Figure("claim, packed", 1.0, "ids/s")], reaches) == reaches[1:]


def test_works_alternate_and_the_median_of_each_member_is_reported() -> None:
    order: list[str] = []
    rates = {"a": iter([1.0, 9.0, 2.0]), "b": iter([30.0, 10.0, 20.0])}

    def work(name: str) -> dict[str, float]:
        order.append(name)
        rate = next(rates[name])
        return {"rate": rate, "p50_ms": 1 / rate}

    found = interleaved(3, {"a": lambda: work("a"), "b": lambda: work("b")})
    assert order == ["a", "b", "a", "b", "a", "b"]
    assert found["a"] == {"rate": 2.0, "p50_ms": 0.5, "runs": (1.0, 9.0, 2.0)}
    assert found["b"]["rate"] == 20.0


def test_a_line_goes_through_collinear_points() -> None:
    assert line([1.0, 2.0, 3.0], [5.0, 7.0, 9.0]) == pytest.approx((3.0, 2.0))
    assert extrapolated([1.0, 2.0, 3.0], [5.0, 7.0, 9.0], 10.0) == pytest.approx(23.0)


def test_points_at_one_place_give_a_level_line() -> None:
    assert line([4.0, 4.0], [1.0, 3.0]) == (2.0, 0.0)


def test_what_another_part_wrote_down_is_read_with_its_ratio_the_right_way_round() -> None:
    of_bytes = {"name": "memory", "value": 2.0, "unit": "bytes/id", "peer": "other", "peer_value": 1.0, "ratio": 2.0}
    assert read({**of_bytes, "kind": "unknown"}).ratio == 0.5


def test_a_figure_always_shows_its_fixed_members_and_others_when_measured() -> None:
    plain = Figure("claim", 1_234_567.8, "ids/s").plain()
    assert plain == {
        **dict.fromkeys(("peer", "peer_value", "ratio", "reach", "ok")),
        "name": "claim",
        "value": 1_234_568,
        "unit": "ids/s",
    }
    assert Figure("claim", 1.0, "ids/s", runs=(1.0, 2.0)).plain()["runs"] == [1.0, 2.0]


def test_beside_a_peer_the_ratio_is_compared_with_the_run_before_and_else_the_value() -> None:
    before = [Figure("a", 4e6, "ids/s"), Figure("a", 4e6, "ids/s").against("Lua", 1e6), Figure("b", 2.0, "ms")]
    slower = [Figure("a", 3e6, "ids/s"), Figure("a", 3e6, "ids/s").against("Lua", 0.75e6), Figure("b", 2.5, "ms")]
    assert worse(slower, before, 0.1) == [(slower[0], before[0]), (slower[2], before[2])]
    assert worse([Figure("a", 3.7e6, "ids/s"), Figure("new", 1.0, "ids/s")], before, 0.1) == []
