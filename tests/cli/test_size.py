"""`oncegate size`: its output and its refusals."""

import json

import pytest
from typer.testing import CliRunner

from oncegate.cli import app
from oncegate.cli.size import seconds


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["size", *arguments], prog_name="oncegate", env={"COLUMNS": "120"})
    return result.exit_code, result.stdout, result.stderr


def test_it_shows_memory_disk_and_startup_by_part_and_in_total() -> None:
    status, out, _ = run("--rate", "1000", "--horizon", "30d", "--json")
    answer = json.loads(out)
    assert status == 0
    assert answer["ids"] == answer["hot_ids"] + answer["cold_ids"] == 1_000 * 30 * 86_400 * 13 // 12
    for of in ("memory_bytes", "disk_bytes", "start_s"):
        total = answer[of].pop("total")
        assert total == pytest.approx(sum(answer[of].values()))
        assert all(part >= 0 for part in answer[of].values())


def test_a_lower_false_positive_rate_costs_memory_of_old_ids_alone() -> None:
    loose, tight = (
        json.loads(run("--rate", "1000", "--horizon", "30d", "--fpr", fpr, "--json")[1]) for fpr in ("0.1", "0.001")
    )
    assert tight["memory_bytes"]["filters"] > loose["memory_bytes"]["filters"]
    assert tight["memory_bytes"]["table"] == loose["memory_bytes"]["table"]


def test_payloads_cost_memory_only_where_they_are_asked_for() -> None:
    asked = ("--rate", "1000", "--horizon", "12h", "--json")
    without, found = (json.loads(run(*asked, *more)[1]) for more in ((), ("--payload-digests",)))
    assert without["memory_bytes"]["payload digests"] == 0
    assert 4 < found["memory_bytes"]["payload digests"] / found["hot_ids"] < 8
    assert found["disk_bytes"]["snapshot"] > without["disk_bytes"]["snapshot"]


def test_results_and_places_cost_memory_only_where_they_are_asked_for() -> None:
    asked = ("--rate", "100", "--horizon", "10s", "--batch", "1", "--json")
    without, results, places = (
        json.loads(run(*asked, *more)[1]) for more in ((), ("--result-bytes", "100"), ("--places",))
    )
    assert without["memory_bytes"]["results"] == without["memory_bytes"]["places"] == 0
    assert results["memory_bytes"]["results"] == results["hot_ids"] * (160 + 100 + 172)
    assert places["memory_bytes"]["places"] == places["hot_ids"] * 172
    for found in (results, places):
        assert found["disk_bytes"]["snapshot"] > without["disk_bytes"]["snapshot"]


def test_results_stay_within_their_budget() -> None:
    answer = json.loads(
        run("--rate", "1000", "--horizon", "30d", "--batch", "10", "--result-bytes", "256", "--json")[1]
    )
    assert 64 << 20 < answer["memory_bytes"]["results"] < 92 << 20, "the budget, and the rows of those claims"


def test_names_and_ranges_are_counted_when_given() -> None:
    asked = ("--rate", "1", "--horizon", "1d", "--json")
    told = ("--names", "9460800", "--ranges", "1000000")
    without, found = (json.loads(run(*asked, *more)[1]) for more in ((), told))
    assert found["memory_bytes"]["names"] >= 60 * 9_460_800
    assert found["memory_bytes"]["ranges"] >= 100 * 1_000_000
    assert found["disk_bytes"]["snapshot"] - without["disk_bytes"]["snapshot"] >= 60 * 9_460_800
    assert found["start_s"]["total"] > without["start_s"]["total"]


def test_a_person_gets_a_table() -> None:
    status, out, _ = run("--rate", "20000", "--horizon", "1h")
    assert status == 0
    for text in ("78,000,000 ids known at once", "behind filters", "start-up", "GiB"):
        assert text in out


@pytest.mark.parametrize(("text", "wanted"), [("90s", 90), ("12h", 43_200), ("1.5d", 129_600), ("1y", 31_536_000)])
def test_a_horizon_is_a_number_and_a_unit(text: str, wanted: float) -> None:
    assert seconds(text) == wanted


@pytest.mark.parametrize(
    "wrong",
    [
        ("--rate", "1", "--horizon", "30"),
        ("--rate", "1", "--horizon", "0d"),
        ("--rate", "1", "--horizon", "d"),
        ("--rate", "0", "--horizon", "1d"),
        ("--rate", "1", "--horizon", "1d", "--fpr", "0"),
        ("--rate", "1", "--horizon", "1d", "--fpr", "1"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(wrong: tuple[str, ...]) -> None:
    status, out, err = run(*wrong)
    assert (status, out) == (1, "")
    assert err.startswith("oncegate: ")
    assert err.count("\n") == 1
