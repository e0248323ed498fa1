"""The reports of the bench, and the lines that `make scale` extrapolates to a billion."""

import itertools
from dataclasses import replace
from typing import Any

import pytest
from matplotlib.text import Text

from bench.__main__ import sections
from bench.cases import redis_ledger, traces, verify
from bench.cases.on_servers import LOG, POINTS
from bench.cases.open_loop import PEAKS
from bench.load.plan import LONG, SHORT, Plan
from bench.report import report
from bench.report.figures import Figure, Reach, judged
from bench.report.panels import KAFKA_PANELS, OF_SECTIONS, PANELS, TIMES, Row
from bench.report.plot import draw, picture
from bench.report.reaches import ANTI_JOINS, HTTP_PACKED, MULTI, NO_TRACES, REACHES
from bench.scale.report import BILLION, Window, billion, cold_bytes, figures, hot_bytes

BASE = 100 << 20


def window(asked: int, hot: int, cold: int, memory: int) -> Window:
    """Returns a window of a million ids that took half a second."""
    return Window(
        asked,
        hot + cold,
        hot,
        cold,
        1_000_000,
        0.5,
        0.4,
        9.0,
        5.0,
        2.0,
        memory,
        34 * cold + 16 * hot,
        2 * cold,
        34 * cold,
    )


@pytest.fixture
def run() -> list[Window]:
    """Returns thirty million ids in memory, then seventy million more while as many leave it; 28 and 2 bytes each."""
    windows = [replace(window(0, 0, 0, BASE), window_ids=0, seconds=0.0, cpu_s=0.0)]
    for millions in range(1, 101):
        ids = millions * 1_000_000
        hot = min(ids, 30_000_000)
        windows.append(window(ids, hot, ids - hot, BASE + 28 * hot + 2 * (ids - hot)))
    return windows


def test_memory_is_reported_by_the_location_of_an_id(run: list[Window]) -> None:
    hot = hot_bytes(run)
    assert hot == pytest.approx(28)
    assert cold_bytes(run, hot) == pytest.approx((2, 0))
    assert cold_bytes(run[:20], hot) is None


def test_what_leaving_takes_whatever_their_number_is_no_id_s_memory(run: list[Window]) -> None:
    busy = [replace(one, memory_bytes=one.memory_bytes + (300 << 20 if one.cold_ids else 0)) for one in run]
    assert cold_bytes(busy, hot_bytes(busy)) == pytest.approx((2, 300 << 20))


def test_the_run_s_figures_are_its_sums(run: list[Window]) -> None:
    found = {figure.name: figure.value for figure in figures(run, restart_s=4.0)}
    assert found["mixed load: rate"] == pytest.approx(2e6)
    assert found["mixed load: rate, processor time"] == pytest.approx(2.5e6)
    assert found["disk"] == pytest.approx(34 * 0.7 + 16 * 0.3)
    assert found["disk of an id that left memory"] == pytest.approx(34)
    assert found["memory of an id that left it"] == pytest.approx(2)


def test_a_billion_has_the_memory_and_the_disk_of_its_ids(run: list[Window]) -> None:
    found = billion(run, 5.0, hot=28.0, cold=(2.0, 300.0))
    memory, disk, _ = (figure.value for figure in found)
    assert memory * 2**30 == pytest.approx(BASE + 300 + 28 * 30_000_000 + 2 * (BILLION - 30_000_000))
    assert disk * 2**30 == pytest.approx(34 * (BILLION - 30_000_000) + 16 * 30_000_000)


def test_a_billion_starts_as_long_as_its_filters_take_longer(run: list[Window]) -> None:
    *_, start = billion(run, 5.0, 28.0, (2.0, 0.0), filter_byte_s=1e-9)
    assert start.value == pytest.approx(5 + 2e-9 * (BILLION - 30_000_000 - 70_000_000))


def test_a_short_run_reports_nothing_about_a_billion(run: list[Window]) -> None:
    assert not [figure for figure in figures(run[:20], 1.0) if "billion" in figure.name]


def test_a_reach_that_was_missed_is_named_in_the_table_and_counted() -> None:
    found = [judged(Figure("claim", value, "ids/s"), [Reach("claim", None, 4e6)]) for value in (3e6, 5e6)]
    assert "| claim | 3 M ids/s, reach 4 M missed |" in report.markdown(found, "make bench", 60.0)
    assert report.last_line(found, report.Path("out")).startswith("bench: 1 of 2 reaches met")


@pytest.mark.parametrize(
    ("value", "text"), [(4_130_000.0, "4.13 M"), (999.0, "999"), (2_500.0, "2.5 k"), (0.05, "0.05")]
)
def test_numbers_are_shown_with_three_digits(value: float, text: str) -> None:
    assert report.number(value) == text


POINT = "claim, packed, 10,000 ids, 16 clients"


def test_a_bar_is_beside_the_strongest_peer_that_was_measured() -> None:
    own = Figure(POINT, 5e6, "ids/s")
    lua, multi, other = (own.against(peer, rate) for peer, rate in [("Redis, Lua", 5e5), (MULTI, 1e6), ("py", 2e6)])
    row = Row("10,000 ids", POINT, "Redis, *")
    assert row.shown([own, lua, multi, other]) == multi
    assert row.shown([own, other, Figure("growth", 1.0, "ms")]) is None
    assert Row("growing", "grow*").shown([own, Figure("growth", 1.0, "ms")]) == Figure("growth", 1.0, "ms")


def test_every_row_of_the_picture_is_a_figure_that_the_page_quotes() -> None:
    found = report.quoted(report.before())
    for panel in (*PANELS, *KAFKA_PANELS, TIMES):
        assert [label for label, _ in panel.shown(found)] == [row.label for row in panel.rows]


def of_sections() -> dict[str, list[Figure]]:
    """Returns figures under the names that the sections give them."""
    redis = [Figure(f"claim over Redis, packed, {n:,} ids, {clients} clients", 1e4, "ids/s") for n, clients in POINTS]
    calls = [Figure(f"claim over gRPC by {way}, packed, 10,000 ids", 2e6, "ids/s") for way in ("streams", "calls")]
    sampled = ["on, 1 % sampled", "on, all sampled"]
    assert set(sampled) < set(traces.variants("", None))
    spans = [Figure(traces.name(one), 9e3, "claims/s of core") for one in sampled]
    return {
        "bench-redis": [one.against(peer, 3e4) for one in redis for peer in (LOG, redis_ledger.KAFKA, MULTI)],
        "bench-grpc": [one.against(HTTP_PACKED, 3e6) for one in calls],
        "bench-traces": [one.against(NO_TRACES, 1e4) for one in spans],
        "bench-verifier": [Figure(verify.name(10), 1e5, "rows/s").against(peer, 1e6) for peer in ANTI_JOINS.values()],
    }


@pytest.mark.parametrize("name", [name for name in OF_SECTIONS if name != "bench-kafka"])
def test_a_section_run_alone_has_a_picture_with_all_its_rows_and_a_caption_of_its_own(name: str) -> None:
    figures = of_sections()[name]
    for panel in OF_SECTIONS[name]:
        assert [label for label, _ in panel.shown(figures)] == [row.label for row in panel.rows]
    texts = texts_of(figures)
    assert_apart(texts)
    others = [texts_of(found) for other, found in of_sections().items() if other != name]
    (caption,) = [text for text, _ in texts if "logarithmic" in text]
    assert caption not in [text for other in others for text, _ in other]


def test_a_run_with_nothing_to_show_leaves_no_picture(tmp_path: report.Path) -> None:
    path = tmp_path / "result.png"
    path.write_bytes(b"of the run before")
    draw([Figure("what no panel has", 1.0, "s")], path)
    assert not path.exists()


def texts_of(figures: list[Figure]) -> list[tuple[str, Any]]:
    """Returns each text of the picture with its box, and at the end the picture's own box."""
    canvas = picture([judged(figure, REACHES) for figure in figures])
    canvas.draw_without_rendering()
    texts = [one for one in canvas.findobj(Text) if one.get_visible() and one.get_text()]
    return [*((one.get_text(), one.get_window_extent()) for one in texts), ("", canvas.bbox)]


def assert_apart(texts: list[tuple[str, Any]]) -> None:
    *boxes, (_, whole) = texts
    for (text, box), (other, place) in itertools.combinations(boxes, 2):
        assert not box.overlaps(place) or box == place, f"{text!r} on {other!r}"
    for text, box in boxes:
        assert box.x0 >= 0, text
        assert box.y0 >= 0, text
        assert box.x1 <= whole.width, text
        assert box.y1 <= whole.height, text


def test_no_text_of_the_picture_overlaps_another_or_leaves_it() -> None:
    texts = texts_of(report.quoted(report.before()))
    assert len(texts) > 60
    assert_apart(texts)


@pytest.mark.parametrize("plan", [LONG, SHORT], ids=["long", "short"])
def test_both_forms_measure_the_point_that_the_open_loop_needs(plan: Plan) -> None:
    assert set(PEAKS) <= set(plan.points)
    assert PEAKS[-1] in plan.text_points
    assert list(sections(plan)) == list(sections(LONG))


def test_figures_quoted_by_a_page_are_read_again() -> None:
    figures = [Figure("claim", 4_500_000.0, "ids/s"), Figure("claim", 4_500_000.0, "ids/s").against("Lua", 900_000.0)]
    assert report.quoted(f"Text.\n\n{report.markdown(figures, 'make bench', 60.0)}\nMore text.\n") == figures


def test_figures_worse_than_in_the_previous_run_are_named_with_both_numbers() -> None:
    before, now = [Figure("claim", 4e6, "ids/s")], [Figure("claim", 3e6, "ids/s")]
    assert "- claim: 3 M ids/s, before 4 M ids/s" in report.what_is_worse(now, before)
    assert "nothing" in report.what_is_worse(before, now)
    assert "no earlier run" in report.what_is_worse(now, [])
