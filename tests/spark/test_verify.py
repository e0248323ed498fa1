"""A comparison of input, ledger and output on Spark: each planted fault is reported by its id."""

import datetime
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import oncegate_spark
from oncegate_spark import Gateway
from oncegate_spark.errors import BadOption, Refused
from tests.spark.jobs.job import Job

pytestmark = pytest.mark.spark


def written(gateway: Gateway, *numbers: int, by_id: bool = True) -> None:
    rows = pa.table({"order": pa.array(numbers, pa.int64()), "shop": ["s"] * len(numbers)})
    with gateway.attempt() as attempt:
        attempt.produce("orders", rows, id_col="order" if by_id else "")


def claimed(gateway: Gateway, *numbers: int, complete: bool) -> None:
    attempt = gateway.attempt(id_set="orders")
    found = attempt.claim(list(numbers), 600_000)
    if complete:
        attempt.complete(found)


def output(job: Job) -> Any:
    return job.spark.read.format("oncegate").options(**job.options(topic="orders")).load()


def verified(job: Job, given: Any, there: Any, **more: Any) -> oncegate_spark.Verified:
    where = {"id_set": "orders", "gateway": job.gateway.url, "namespace": job.gateway.namespace}
    return oncegate_spark.verify(given, there, "order", **{**where, **more})


def test_each_planted_fault_is_named_by_its_id(job: Job) -> None:
    written(job.gateway, *range(100))
    written(job.gateway, 7, 7, 500, by_id=False)
    claimed(job.gateway, 200, complete=True)
    claimed(job.gateway, 300, complete=False)
    given = job.spark.createDataFrame([(n,) for n in [*range(100), 1, 200, 300, 400]], "order int").repartition(3)
    found = verified(job, given, output(job))
    assert found.ids == {
        "ok": 99, "missing": 1, "not_written": 1, "doubled": 1, "held": 1, "unrecorded": 0, "foreign": 1,
    }  # fmt: skip
    wrong = {(row["order"], row["kind"], row["copies"]) for row in found.rows.where("kind <> 'ok'").collect()}
    assert wrong == {
        ("7", "doubled", 3),
        ("200", "missing", 0),
        ("300", "held", 0),
        ("400", "not_written", 0),
        ("500", "foreign", 1),
    }
    assert not found.is_well
    assert "1 missing      known to the ledger as written, but not in the output" in str(found)
    found.rows.unpersist()
    assert job.counters()["granted"] == 102, "a comparison grants nothing: 100 rows, and the two claims"


def test_an_output_that_spark_reads_elsewhere_may_call_its_ids_otherwise(job: Job, tmp_path: Path) -> None:
    """The id is a number in the input and text in the output: an id is its text."""
    written(job.gateway, *range(20))
    written(job.gateway, 30, by_id=False)
    rows = [(str(n), "x") for n in [*range(20), 30]] + [(None, "x"), ("", "x")]
    job.spark.createDataFrame(rows, "`the.key` string, v string").write.parquet(str(tmp_path / "there"))
    given = job.spark.range(31).where("id < 20 or id = 30").withColumnRenamed("id", "order")
    found = verified(job, given, job.spark.read.parquet(str(tmp_path / "there")), output_id="the.key")
    assert {kind: count for kind, count in found.ids.items() if count} == {"ok": 20, "unrecorded": 1}
    assert (found.without_id, found.is_well) == (2, False)


MIDNIGHT = datetime.datetime(2026, 10, 25, tzinfo=datetime.UTC)
SUMMER_ENDS = [MIDNIGHT + datetime.timedelta(hours=hour, microseconds=hour * 500_000) for hour in range(3)]


def test_ids_of_each_type_are_asked_for_as_the_ledger_knows_them(job: Job) -> None:
    """Spark's text of a decimal includes its scale, that of an instant the session's zone, and bytes may not be
    text."""
    columns: dict[str, tuple[str, list[Any]]] = {
        "price": ("decimal(38,18)", [Decimal(0), Decimal("-100.50"), Decimal("1E-18")]),
        "whole": ("decimal(20,0)", [Decimal(100), Decimal(-7), Decimal(0)]),
        "at": ("timestamp", SUMMER_ENDS),
        "local": ("timestamp_ntz", [one.replace(tzinfo=None) for one in SUMMER_ENDS]),
        "raw": ("binary", [b"\xff\0", b"a", b"\xfe"]),
    }
    schema = ", ".join(f"{name} {kind}" for name, (kind, _) in columns.items())
    spark = job.spark.newSession()
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    given = spark.createDataFrame(list(zip(*(values for _, values in columns.values()), strict=True)), schema)
    there = given.toArrow()
    where = {"gateway": job.gateway.url, "namespace": job.gateway.namespace}
    for names in (*([name] for name in columns), ["raw", "price"]):
        topic, some = "-".join(names), given.select(*names)
        with job.gateway.attempt() as attempt:
            attempt.produce(topic, there.select(names).slice(0, 2), id_col=tuple(names))
        report = oncegate_spark.verify(some, some, ",".join(names), id_set=topic, **where)
        assert {kind: count for kind, count in report.ids.items() if count} == {"ok": 2, "unrecorded": 1}, names
        report.rows.unpersist()


def test_rows_written_between_the_ledgers_answer_and_the_reading_are_asked_for_again(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(job.gateway, 1)
    module = sys.modules[oncegate_spark.verify.__module__]
    compared = module._compared

    def late(*given: Any) -> Any:
        assert job.counters()["looked_up"] == 2, "the ledger is asked of all before the output is read"
        written(job.gateway, 2)
        return compared(*given)

    monkeypatch.setattr(module, "_compared", late)
    given = job.spark.createDataFrame([(1,), (2,)], "order int")
    assert verified(job, given, output(job)).is_well


def test_what_cannot_be_compared_is_refused_before_a_job(job: Job) -> None:
    given = job.spark.createDataFrame([(1, 2)], "order int, n int")
    with pytest.raises(BadOption, match=r"ids of 1 columns \(order\) cannot equal ids of 2"):
        verified(job, given, given, output_id="order,n")
    with pytest.raises(Refused, match="a stream has no end"):
        verified(job, job.stream().withColumnRenamed("n", "order"), given)
    with pytest.raises(BadOption, match="here it must be block or fail"):
        verified(job, given, given, on_down="spill")
    with pytest.raises(Exception, match="on_down allows no further retries, after 1 tries"):
        verified(job, given, given, gateway="http://127.0.0.1:9", timeout_ms=1_000, on_down="fail")
    with pytest.raises(Exception, match="null"):
        verified(job, job.spark.createDataFrame([(None,)], "order int"), given)
