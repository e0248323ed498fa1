"""An audit of existing rows on Spark: of a DataFrame, and of the files that a streaming job left."""

import datetime as dt
import json
import os
from pathlib import Path
from typing import Any

import pytest

import oncegate_spark
from oncegate_spark.errors import BadId, BadOption, Refused

pytestmark = pytest.mark.spark
T0 = dt.datetime(2026, 11, 20, 12, tzinfo=dt.UTC)


def ids_by_copies_and_distance(found: oncegate_spark.Audit) -> tuple[dict[str, int], dict[str, int] | None]:
    """Returns the ids by number of copies and by distance in time."""
    apart = None if found.apart is None else {one.label: one.ids for one in found.apart}
    return {one.label: one.ids for one in found.copies}, apart


def test_copies_distances_and_rows_without_an_id_are_counted(spark: Any) -> None:
    later = [0, 1, 59, 3_600, 40 * 86_400]  # seconds from the first copy to the second
    rows = [(f"twice-{s}", 1, T0 + dt.timedelta(seconds=at)) for s in later for at in (0, s)]
    rows += [("often", 1, T0 + dt.timedelta(seconds=s)) for s in range(7)]
    rows += [(f"once-{n}", 1, T0) for n in range(90)] + [(None, 1, T0), (None, 1, T0), ("", 1, T0)]
    rows += [("no-time", 1, None), ("no-time", 1, None)]
    df = spark.createDataFrame(rows, "`an.id` string, n int, at timestamp").repartition(3)
    audit = oncegate_spark.audit(df, "an.id", time_col="at")
    assert (audit.rows, audit.without_id, audit.ids, audit.duplicates) == (112, 3, 97, 12)
    copies, apart = ids_by_copies_and_distance(audit)
    assert copies == {"1": 90, "2": 6, "5-9": 1}
    distances = {"at the same time": 1, "up to 1 second": 1, "up to 1 minute": 2, "up to 1 hour": 1, "longer": 1}
    assert apart == {**distances, "unknown": 1}
    assert (audit.most_copies, audit.most_copied) == (7, '{"an.id":"often"}')
    assert audit.longest_apart_s == 40 * 86_400
    assert "112 rows, 97 ids, 12 duplicates" in str(audit)
    untimed = oncegate_spark.audit(df, "an.id")
    assert (untimed.duplicates, untimed.apart) == (12, None)
    assert "set time_col" in str(untimed)


def test_the_files_of_a_path_have_their_write_times(spark: Any, tmp_path: Path) -> None:
    """A batch is stored twice, as by a job that died after its sink and before its commit."""
    for number, ids in enumerate([range(10), range(10, 20), range(10, 20)]):
        folder = tmp_path / f"batch-{number}"
        spark.range(ids[0], ids[-1] + 1).withColumnRenamed("id", "order").coalesce(1).write.parquet(str(folder))
        for file in folder.glob("*.parquet"):
            os.utime(file, (1_700_000_000 + 30 * number, 1_700_000_000 + 30 * number))
    audit = oncegate_spark.audit(f"{tmp_path}/*", id_col="order")
    assert (audit.rows, audit.ids, audit.duplicates) == (30, 20, 10)
    assert ids_by_copies_and_distance(audit) == ({"1": 10, "2": 10}, {"up to 1 minute": 10})
    assert audit.longest_apart_s == 30


def test_ids_of_text_and_of_folders_are_the_text_that_they_are(spark: Any, tmp_path: Path) -> None:
    """Text stays text beside a number, a date or another folder."""
    texts = ["00501", "501", "2.50", "2.5", "NA", "2026-11-20", "1e5", "00501"]
    for number, text in enumerate(texts):
        (tmp_path / "csv").mkdir(exist_ok=True)
        (tmp_path / "csv" / f"{number}.csv").write_text(f"{text}\n")
        (tmp_path / "json").mkdir(exist_ok=True)
        (tmp_path / "json" / f"{number}.json").write_text(json.dumps({"order": text}) + "\n")
    (tmp_path / "json" / "number.json").write_text('{"order": 501}\n{"order": 7.5}\n')
    for folder in ("00501", "501"):
        spark.range(1).write.parquet(str(tmp_path / "folders" / f"order={folder}"))
    before = spark.conf.get("spark.sql.sources.partitionColumnTypeInference.enabled")
    audit = oncegate_spark.audit(str(tmp_path / "csv"), "_c0", format="csv")
    assert (audit.rows, audit.ids, audit.duplicates, audit.most_copied) == (8, 7, 1, '{"_c0":"00501"}')
    audit = oncegate_spark.audit(str(tmp_path / "json"), "order", format="json")
    assert (audit.rows, audit.ids, audit.duplicates) == (10, 8, 2)
    audit = oncegate_spark.audit(str(tmp_path / "folders"), "order")
    assert (audit.rows, audit.ids, audit.duplicates) == (2, 2, 0)
    assert spark.conf.get("spark.sql.sources.partitionColumnTypeInference.enabled") == before


def test_an_id_of_several_columns_is_known_by_all_of_them(spark: Any) -> None:
    rows = [("a", 1), ("a", 2), ("b", 1), ("a", 1), ("a", None)]
    audit = oncegate_spark.audit(spark.createDataFrame(rows, "x string, y int"), ["x", "y"])
    assert (audit.rows, audit.without_id, audit.ids, audit.duplicates) == (5, 1, 3, 1)


def test_what_cannot_be_counted_is_refused_before_a_job_starts(spark: Any) -> None:
    df = spark.createDataFrame([("a", 0.5)], "id string, x double")
    for id_col, time_col, error, told in (
        ("x", None, BadId, "type double"),
        ("gone", None, BadId, "id_col names gone"),
        ("", None, BadOption, "set id_col"),
        ("id", "gone", BadOption, "time_col names gone"),
        ("id", "x", BadOption, r'time_col names x, which is of type double.*cast\("timestamp"\)'),
    ):
        with pytest.raises(error, match=told):
            oncegate_spark.audit(df, id_col, time_col=time_col)
    with pytest.raises(Refused, match=r"use spark.read instead of spark.readStream"):
        oncegate_spark.audit(spark.readStream.format("rate").load(), "value")
