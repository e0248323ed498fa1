"""Exit status 0 only if every fault was hit in every run and every promise held."""

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from demo import report
from demo.compare import Compared
from demo.faults import FAULTS
from demo.plan import EMBEDDED, KAFKA, PLANS, Plan
from demo.supervisor import Ran

RUNS = [way.name for way in EMBEDDED.ways]


def good() -> dict[str, Any]:
    """Returns the report of a successful run of the demo."""

    def run(duplicated: int, takeovers: int, per_fault: int, salted: int = 0) -> dict[str, Any]:
        faults = {f.name: {"injected": True, "hit": True, "duplicated": per_fault} for f in FAULTS}
        counts = {"rows_in": 100 + salted, "rows_out": 100 + duplicated, "duplicated": duplicated, "lost": 0}
        return {**counts, "salted_rows": salted, "takeover_rows": takeovers, "seconds": 1.0, "faults": faults}

    return {"plain": run(60, 0, 10), "claim": run(5, 5, 0), "staged": run(0, 0, 0), "ids": run(0, 0, 0, salted=2)}


def test_a_good_result_has_no_failures() -> None:
    assert report.failures(EMBEDDED, good()) == []


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("fault", [f.name for f in FAULTS])
def test_a_fault_that_was_not_hit_fails_the_demo(run: str, fault: str) -> None:
    runs = good()
    runs[run]["faults"][fault]["hit"] = False
    assert len(report.failures(EMBEDDED, runs)) == 1


@pytest.mark.parametrize(
    ("run", "member", "value"),
    [
        *(("staged", "duplicated", 1), ("staged", "lost", 1), ("claim", "lost", 1), ("claim", "duplicated", 6)),
        *(("ids", "duplicated", 1), ("ids", "lost", 1), ("ids", "salted_rows", 0)),
    ],
)
def test_a_broken_promise_fails_the_demo(run: str, member: str, value: int) -> None:
    runs = good()
    runs[run][member] = value
    assert len(report.failures(EMBEDDED, runs)) == 1


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_sparks_own_faults_must_make_duplicates_in_plain_and_the_others_need_not(fault: Any) -> None:
    runs = good()
    runs["plain"]["faults"][fault.name]["duplicated"] = 0
    assert len(report.failures(EMBEDDED, runs)) == (1 if fault.spark else 0)


def judged(name: str, strange: int = 0, plan: Plan = EMBEDDED) -> report.Judged:
    curve = np.array([0.0, 2.0, 3.0]), np.array([0, 5, 5])
    compared = Compared(100, 105, 5, 0, strange, {FAULTS[0].batch: 4, 0: 1}, *curve)
    events = [{"kind": "injected", "fault": FAULTS[0].name, "t": 101.0}]
    return report.Judged(
        plan, Ran(name, Path(), 100.0, 3.0, 0, events, salted_rows=7 if name == "ids" else 0), compared
    )


def test_rows_that_never_went_in_fail_the_demo() -> None:
    assert report.strangers([judged("plain"), judged("staged", strange=2)]) == [
        "staged: 2 rows came out that never went in"
    ]


def test_table_picture_and_result_are_made_of_the_same_numbers(tmp_path: Path) -> None:
    all_runs = [judged(name) for name in RUNS]
    console = Console(width=160, record=True, file=(tmp_path / "text").open("w"))
    with console.file:
        report.show(console, all_runs)
    text = console.export_text()
    assert EMBEDDED.way("plain").title in text
    assert "batches without a fault" in text
    assert "7 sent twice" in text
    report.draw(tmp_path / "result.png", all_runs)
    assert (tmp_path / "result.png").stat().st_size > 10_000
    report.write_result(tmp_path / "result.json", {one.ran.name: one.result() for one in all_runs})
    runs = json.loads((tmp_path / "result.json").read_text())["runs"]
    counts = {"rows_in", "rows_out", "duplicated", "lost", "salted_rows", "takeover_rows"}
    assert set(runs["claim"]) == {*counts, "seconds", "faults"}
    assert (runs["claim"]["salted_rows"], runs["ids"]["salted_rows"]) == (0, 7)
    assert runs["claim"]["faults"]["task_error"] == {"injected": True, "hit": False, "duplicated": 4}


@pytest.mark.parametrize(("plan", "name"), [(plan, way.name) for plan in PLANS.values() for way in plan.ways])
def test_a_terminal_of_80_columns_shows_each_run_s_counts_in_one_line(plan: Plan, name: str) -> None:
    console = Console(width=80, record=True, file=io.StringIO())
    report.show(console, [grown(judged(way.name, plan=plan)) for way in plan.ways])
    row = next(line for line in console.export_text().splitlines() if line.split()[:1] == [name])
    assert row.split()[:6] == [name, "343,776", "1,343,776", "1,000,000", "0", "300"]
    assert not row.rstrip().endswith("…")


def grown(one: report.Judged) -> report.Judged:
    """Returns the result with counts as wide as any of a real run."""
    compared = replace(one.compared, rows_in=343_776, rows_out=1_343_776, duplicated=1_000_000)
    ran = replace(one.ran, seconds=300.0, takeover_rows=10_000, salted_rows=7_000 if one.ran.name == "ids" else 0)
    return report.Judged(one.plan, ran, compared)


def test_no_label_of_a_fault_overlaps_another() -> None:
    assert report.spread([1.0, 1.5, 2.0, 9.0], 2.0) == [1.0, 3.0, 5.0, 9.0]
    assert report.spread([], 2.0) == []


def on_kafka() -> dict[str, Any]:
    """Returns the report of a successful run of the demo on Kafka."""
    runs = {way.name: {**good()["staged"], "salted_rows": 2 * way.salted} for way in KAFKA.ways}
    for name, run in runs.items():
        met = KAFKA.faults_of(name)
        run["faults"] = {fault.name: {"injected": True, "hit": True, "duplicated": 1} for fault in met}
    return runs


def test_sparks_own_kafka_sink_promises_nothing_and_is_struck_by_no_fault_of_a_gateway() -> None:
    runs = on_kafka()
    runs["kafka"] |= {"duplicated": 4, "lost": 1}
    assert report.failures(KAFKA, runs) == []
    assert "gateway_kill" not in runs["kafka"]["faults"]


@pytest.mark.parametrize("way", ["staged", "ids"])
@pytest.mark.parametrize("count", ["duplicated", "lost"])
def test_one_row_too_many_or_too_few_in_a_kafka_topic_fails_the_demo(way: str, count: str) -> None:
    runs = on_kafka()
    runs[way][count] = 1
    assert report.failures(KAFKA, runs) == [f"{way}: 1 rows {count}"]


def test_a_fault_that_a_way_does_not_meet_has_a_dash_in_its_column() -> None:
    console = Console(width=80, record=True, file=io.StringIO())
    report.show(console, [judged(way.name, plan=KAFKA) for way in KAFKA.ways])
    row = next(line for line in console.export_text().splitlines() if line.startswith("standby_takeover"))
    assert row.split()[1] == "–"
    assert "not hit" in row


def test_the_picture_has_each_fault_where_it_struck_the_first_way_that_meets_it() -> None:
    ways = [judged(way.name, plan=KAFKA) for way in KAFKA.ways]
    ways[1].ran.events.extend(
        [
            {"kind": "injected", "fault": FAULTS[0].name, "t": 110.0},
            {"kind": "injected", "fault": "gateway_kill", "t": 100.5},
        ]
    )
    assert report.strikes(ways) == [
        (0.5, "gateway_kill", KAFKA.way("staged").colour),
        (1.0, FAULTS[0].name, "#777777"),
    ]
