"""Duplicates in existing data: their number, age and cause, and how many each retention of ids would have caught."""

import json
import random
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from oncegate.cli import app
from oncegate.verifier import runs
from oncegate.verifier.audit.report import AGES_MS, HORIZONS_MS

HOUR_MS = 3_600_000
BEGIN_MS = int(datetime(2026, 11, 1, tzinfo=UTC).timestamp() * 1_000)


def run(*words: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["audit", *map(str, words)], prog_name="oncegate")
    return result.exit_code, result.stdout, result.stderr


def audited(*words: object) -> Any:
    status, out, err = run(*words, "--json")
    assert (status, err) == (0, ""), err
    return json.loads(out)


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    """a: three copies: one attempt, another of its batch, and a third a day later; b: twice at once; c: once."""
    times = [BEGIN_MS + 24 * HOUR_MS, BEGIN_MS, BEGIN_MS + 500, BEGIN_MS, BEGIN_MS, BEGIN_MS, BEGIN_MS]
    table = pa.table(
        {
            "order": ["a", "a", "a", "b", "b", "c", None],
            "at": pa.array(times, pa.timestamp("ms", "UTC")),
            "attempt": ["t3", "t1", "t2", "t1", "t1", "t1", "t1"],
            "batch": [2, 1, 1, 1, 1, 1, 1],
        }
    )
    pa.parquet.write_table(table, tmp_path / "orders.parquet", row_group_size=2)
    return tmp_path / "orders.parquet"


def test_a_table_is_summarized_by_copies_ages_causes_and_horizons(orders: Path) -> None:
    found = audited(orders, "--id-col", "order", "--time-col", "at", "--attempt", "attempt", "--batch", "batch")
    names = "rows", "without_id", "ids", "duplicates", "repeated_ids", "most_copies"
    assert {name: found[name] for name in names} == {
        "rows": 7, "without_id": 1, "ids": 3, "duplicates": 3, "repeated_ids": 2, "most_copies": 3,
    }  # fmt: skip
    assert {name: count for name, count in found["ages"].items() if count} == {"a second": 2, "a day": 1}
    assert found["causes"] == {"UPSTREAM": 1, "TASK_RETRY": 1, "UNKNOWN": 1}
    assert found["caught"] == {"1h": 2, "6h": 2, "1d": 3, "7d": 3, "30d": 3}


def test_facts_missing_from_the_rows_are_unknown_and_not_guessed(orders: Path) -> None:
    found = audited(orders, "--id-col", "order")
    assert (found["duplicates"], found["ages"], found["causes"], found["caught"]) == (3, None, None, None)
    assert audited(orders, "--id-col", "order", "--batch", "batch")["causes"] == {"UNKNOWN": 3}
    shown = run(orders, "--id-col", "order")[1]
    assert "7 rows, 3 ids, 3 duplicates (42.86%)" in shown
    assert "how old they are is not known" in shown


def test_a_folder_of_files_is_one_table_and_an_id_may_have_several_columns(tmp_path: Path) -> None:
    for name, flights in (("1", ["1545", "1714"]), ("2", ["1545", "1141"])):
        pa.csv.write_csv(pa.table({"carrier": ["UA", "UA"], "flight": flights}), tmp_path / f"{name}.csv")
    found = audited(tmp_path, "--id-col", "carrier", "--id-col", "flight")
    assert (found["rows"], found["ids"], found["duplicates"]) == (4, 3, 1)


@pytest.mark.parametrize("kind", ["csv", "ndjson"])
def test_ids_of_text_are_counted_as_they_are_in_the_file(tmp_path: Path, kind: str) -> None:
    texts = ["00501", "501", "2.50", "2.5", "NA", "null", "2026-11-20", "2026-11-20 00:00:00", "2.50"]
    times = [
        "2026-11-01",
        "2026-11-01T01:00:00Z",
        "2026-11-01 00:00:00",
        str(BEGIN_MS),
        "",
        "2026-11-01T01:00:00.5+01:00",
    ]
    for number, order in enumerate((texts, texts[::-1])):
        rows = [(one, times[n % len(times)]) for n, one in enumerate(order)]
        lines = [f"{one},{at}" for one, at in rows]
        if kind == "ndjson":
            lines = [json.dumps({"order": one, "at": at}) for one, at in rows]
        (tmp_path / f"{number}.{kind}").write_text("\n".join(["order,at", *lines, ""][kind == "ndjson" :]))
    found = audited(tmp_path / f"0.{kind}", "--id-col", "order")
    assert (found["rows"], found["ids"], found["duplicates"], found["without_id"]) == (9, 8, 1, 0)
    found = audited(tmp_path, "--id-col", "order", "--time-col", "at")
    assert (found["rows"], found["ids"], found["duplicates"]) == (18, 8, 10)


def test_counts_are_those_of_a_dictionary_whatever_is_flushed_when(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed = 20261126
    print(f"seed {seed}")
    rng = random.Random(seed)
    monkeypatch.setattr(runs, "BUFFERED_ROWS", 64)
    rows = [(f"id-{rng.randrange(400)}", BEGIN_MS + rng.randrange(40 * 24 * HOUR_MS)) for _ in range(1_000)]
    table = pa.table({"id": [name for name, _ in rows], "at": pa.array([at for _, at in rows], pa.int64())})
    pa.parquet.write_table(table, tmp_path / "t.parquet", row_group_size=100)
    found = audited(tmp_path / "t.parquet", "--id-col", "id", "--time-col", "at")
    by_id: dict[str, list[int]] = defaultdict(list)
    for name, at in rows:
        by_id[name].append(at)
    apart = [at - min(times) for times in by_id.values() for at in sorted(times)[1:]]
    assert (found["ids"], found["duplicates"]) == (len(by_id), len(apart))
    assert found["most_copies"] == max(map(len, by_id.values()))
    assert found["caught"] == {name: sum(ms <= most for ms in apart) for name, most in HORIZONS_MS.items()}
    assert sum(found["ages"].values()) == len(apart)
    assert list(found["ages"]) == list(AGES_MS)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["orders.parquet"], "--id-col names the column"),
        (["orders.parquet", "--id-col", "nothing"], "--id-col names 'nothing', and the rows have order"),
        (["orders.parquet", "--id-col", "order", "--time-col", "nothing"], "--time-col names 'nothing', and the rows"),
        (["orders.parquet", "--id-col", "order", "--batch", "nothing"], "--batch names 'nothing', and the rows have"),
        (["orders.parquet", "--id-col", "order", "--time-col", "attempt"], "has type string"),
        (["nowhere.parquet", "--id-col", "order"], "is not a file"),
        (["kafka://localhost:1/t", "--id-col", "order"], "are of tables"),
        (["kafka://localhost:1/t", "--id", "nothing"], "is unknown; use one of"),
    ],
)
def test_what_cannot_be_read_is_one_line(
    orders: Path, words: list[str], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(orders.parent)
    status, out, err = run(*words)
    assert (status, out, told in err, err.count("\n")) == (1, "", True, 1), err
