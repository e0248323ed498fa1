"""Ids by source position, by content and by order: the same at every reading, or refused."""

import datetime
import decimal
import hashlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F

from oncegate_spark.errors import BadOption, Refused
from oncegate_spark.spark.assign_ids import HASH, assign_ids
from oncegate_spark.spark.row_text import row_text
from tests.spark.jobs.job import Job

pytestmark = pytest.mark.spark

ROWS = 6_000


@pytest.fixture
def files(tmp_path: Path) -> str:
    """Writes two Parquet files of several row groups; each text occurs in them three times."""
    folder = tmp_path / "a folder, with #"
    folder.mkdir()
    for part in range(2):
        numbers = range(part * ROWS // 2, (part + 1) * ROWS // 2)
        table = pa.table({"n": pa.array(numbers, pa.int64()), "text": [f"text {n % (ROWS // 3)}" for n in numbers]})
        pq.write_table(table, folder / f"{part}.parquet", row_group_size=500)
    return str(folder)


@contextmanager
def conf(spark: Any, **settings: str) -> Iterator[None]:
    names = {name.replace("__", "."): value for name, value in settings.items()}
    before = {name: spark.conf.get(name) for name in names}
    for name, value in names.items():
        spark.conf.set(name, value)
    yield
    for name, value in before.items():
        spark.conf.set(name, value)


def small_splits(spark: Any) -> Any:
    """Reads each file in several parts, as on a machine with many cores."""
    return conf(spark, spark__sql__files__maxPartitionBytes="4000", spark__sql__files__openCostInBytes="0")


def by_row(df: Any, name: str = "oncegate_id") -> dict[int, str]:
    return {row["n"]: row[name] for row in df.select("n", name).collect()}


def test_the_place_in_a_file_is_the_same_however_the_file_is_cut(spark: Any, files: str) -> None:
    whole = spark.read.parquet(files)
    parts, first = whole.rdd.getNumPartitions(), by_row(assign_ids(whole, "source"))
    with small_splits(spark):
        cut = spark.read.parquet(files)
        assert cut.rdd.getNumPartitions() > parts
        again = by_row(assign_ids(cut, "source").repartition(5))
        some = by_row(assign_ids(cut.where("n > 5100").select("n"), "source"))
    assert again == first
    assert len(set(first.values())) == ROWS
    assert some == {n: text for n, text in first.items() if n > 5100}
    assert first[ROWS // 2 + 7].endswith("/1.parquet#7")


def test_a_stream_of_files_gives_the_ids_of_the_batch_read(spark: Any, files: str, tmp_path: Path) -> None:
    stream = spark.readStream.schema("n bigint, text string").parquet(files)
    writer = assign_ids(stream, "source").writeStream.format("parquet").trigger(availableNow=True)
    checkpoint = str(tmp_path / "checkpoint")
    writer.option("checkpointLocation", checkpoint).start(str(tmp_path / "out")).awaitTermination(60)
    assert by_row(spark.read.parquet(str(tmp_path / "out"))) == by_row(assign_ids(spark.read.parquet(files), "source"))


def test_numbering_rows_as_spark_does_is_not_the_same_when_the_file_is_cut(spark: Any, files: str) -> None:
    """Demonstrates that the naive way, which seems right on one machine, is wrong: the reason for this module."""

    def naive() -> dict[int, str]:
        return by_row(spark.read.parquet(files).withColumn("oncegate_id", F.monotonically_increasing_id()))

    first = naive()
    with small_splits(spark):
        assert naive() != first


@pytest.mark.parametrize("kind", ["csv", "json", "text", "orc"])
def test_files_whose_rows_spark_does_not_number_are_refused(spark: Any, tmp_path: Path, kind: str) -> None:
    folder = str(tmp_path / kind)
    spark.range(3).selectExpr("cast(id as string) value").write.format(kind).save(folder)
    with pytest.raises(Refused, match=r"only for Parquet.*splits depend on the number of cores"):
        assign_ids(spark.read.format(kind).load(folder), "source")


def test_a_row_of_a_topic_is_named_by_topic_partition_and_offset(spark: Any) -> None:
    kafka = spark.sql("select 'a/b' topic, 3 partition, 17L offset, 'x' value")
    assert assign_ids(kafka, "source").first()["oncegate_id"] == "a/b/3/17"
    ours = spark.sql("select 3 _partition, 17L _offset")
    assert assign_ids(ours, "source", topic="t", name="my_id").first()["my_id"] == "t/3/17"


def test_a_row_of_an_oncegate_topic_needs_the_topics_name_and_its_offset(spark: Any) -> None:
    with pytest.raises(BadOption, match='topic="<topic>"'):
        assign_ids(spark.sql("select 3 _partition, 17L _offset"), "source")
    with pytest.raises(BadOption, match="includeOffsets"):
        assign_ids(spark.range(3), "source", topic="t")


def test_rows_that_were_multiplied_have_no_place_of_their_own(spark: Any, files: str) -> None:
    read = spark.read.parquet(files)
    other = spark.range(3).withColumnRenamed("id", "k")
    for multiplied in (
        read.select("n", F.explode(F.array("n", "n"))),
        read.join(other, F.col("n") > F.col("k")),
        read.sample(True, 2.0),
        read.union(read),
    ):
        with pytest.raises(Refused, match=r"must come right after reading: \w+ may duplicate"):
            assign_ids(multiplied, "source")


def test_rows_multiplied_before_the_plan_begins_are_refused(spark: Any, files: str, job: Job) -> None:
    """A plan that was cut off shows one leaf, whatever was above it: copies would share an id, and all but one would be
    lost."""
    message = r"finds no source: LogicalRDD.*on the stream, before foreachBatch.*by=\"content\""
    twice = spark.read.parquet(files).select("n", F.explode(F.array(F.lit(1), F.lit(2))).alias("part"))
    kafka = ["'a' topic", "0 partition", "n offset", "part"]
    for cut in (twice.localCheckpoint(), spark.createDataFrame(twice.limit(4).rdd, "n bigint, part int")):
        with pytest.raises(Refused, match=message):
            assign_ids(cut.selectExpr(*kafka), "source")
    refused: list[str] = []

    def write(df: Any, batch: int) -> None:
        try:
            assign_ids(df, "source")
        except Refused as error:
            refused.append(str(error))

    job.add_file(1, 2)
    job.run_each(job.stream().selectExpr("'a' topic", "0 partition", "n offset", "explode(array(1, 2)) part"), write)
    assert len(refused) == 1
    assert "LogicalRDD" in refused[0]


def test_ids_assigned_on_the_stream_are_those_of_every_batch(files: str, job: Job) -> None:
    seen: list[str] = []
    job.add_file(1, 2)
    stream = assign_ids(job.stream(), "source")
    job.run_each(stream, lambda df, batch: seen.extend(row["oncegate_id"] for row in df.collect()))
    assert len(set(seen)) == 2


def test_a_topic_of_ours_is_a_source(job: Job) -> None:
    job.write(job.rows(1, 2, 3), **job.options(write="plain"))
    read = job.spark.read.format("oncegate").options(**job.options(includeOffsets="true")).load()
    assert len(set(by_row(assign_ids(read, "source", topic="t")).values())) == 3


def test_a_column_that_differs_only_in_case_is_not_overwritten(spark: Any) -> None:
    df = spark.createDataFrame([("mine", 1)], "Oncegate_ID string, n int")
    with pytest.raises(BadOption, match="column Oncegate_ID already exists; choose another name= than oncegate_id"):
        assign_ids(df, "content")
    with conf(spark, spark__sql__caseSensitive="true"):
        assert assign_ids(df, "content").columns == ["Oncegate_ID", "n", "oncegate_id"]
    for columns, name in (("__oncegate_hash int", "id"), ("__Oncegate_Whole_Hash int", "id"), ("n int", HASH)):
        with pytest.raises(BadOption, match=r"assign_ids uses the name __\w+ itself"):
            assign_ids(spark.createDataFrame([(1,)], columns), "content", name=name)


def test_a_dot_in_a_columns_name_is_no_path(spark: Any) -> None:
    df = spark.createDataFrame([(2, 1), (1, 2)], "`a.b` int, n int")
    assert by_row(assign_ids(df, "position", order_by=["a.b"], scope="s")) == {2: "s#0", 1: "s#1"}
    assert set(by_row(assign_ids(df, "content", cols=["a.b"]))) == {1, 2}


def test_content_gives_equal_rows_a_number_each_and_the_same_ids_at_every_reading(spark: Any, files: str) -> None:
    read = spark.read.parquet(files).select("text")
    first = [row["oncegate_id"] for row in assign_ids(read, "content").collect()]
    with small_splits(spark), conf(spark, spark__sql__shuffle__partitions="5"):
        cut = spark.read.parquet(files).repartition(7).select("text")
        again = [row["oncegate_id"] for row in assign_ids(cut, "content").collect()]
    assert set(again) == set(first)
    assert len(set(first)) == len(first) == ROWS
    assert set(Counter(one.split("-")[1] for one in first).items()) == {("0", 2_000), ("1", 2_000), ("2", 2_000)}


GOLDEN = [
    ("cast('x' as string) a", "1:as1:x"),
    ("cast('' as string) a", "1:as0:"),
    ("cast(null as string) a", "1:a-"),
    ("null a", "1:a-"),
    ("'é' a, 'b' b", "1:as2:é1:bs1:b"),
    ("'b' b, 'é' a", "1:as2:é1:bs1:b"),
    ("cast(-7 as tinyint) a", "1:ai2:-7"),
    ("-7L a", "1:ai2:-7"),
    ("true a", "1:ab4:true"),
    ("cast(0.0000001 as decimal(20,10)) a", "1:ae12:0.0000001000"),
    ("cast(1234567.5 as decimal(20,1)) a", "1:ae11:1,234,567.5"),
    ("1.5D a", "1:af19:4609434218613702656"),
    ("cast(1.5 as float) a", "1:af19:4609434218613702656"),
    ("X'00FF' a", "1:ax4:00FF"),
    ("date'2026-11-21' a", "1:ad5:20778"),
    ("timestamp'2026-11-21 10:00:00Z' a", "1:at16:1795255200000000"),
    ("timestamp_ntz'2026-11-21 10:00:00.5' a", "1:al21:2026-11-21 10:00:00.5"),
    ("array('x', null) a", "1:aa5:s1:x-"),
    ("array() a", "1:aa0:"),
    ("map(10, null, 2, 'x') a", "1:am14:i1:2s1:xi2:10-"),
    ("named_struct('y', 1, 'x', 'p') a", "1:ar14:1:xs1:p1:yi1:1"),
]


@pytest.mark.parametrize(("columns", "text"), GOLDEN)
def test_the_text_of_a_row_is_what_it_was_in_every_release(spark: Any, columns: str, text: str) -> None:
    row = spark.sql(f"select {columns}")
    assert row.select(row_text(row.schema, row.columns)).first()[0] == text


def test_the_id_is_the_hash_of_scope_and_text_and_the_number(spark: Any) -> None:
    row = spark.sql("select 'é' a, 7 b")
    for scope, text in (("", "0:1:as2:é1:bi1:7"), ("day 1", "5:day 11:as2:é1:bi1:7")):
        made = assign_ids(row, "content", scope=scope).first()["oncegate_id"]
        assert made == f"{hashlib.sha256(text.encode()).hexdigest()}-0"


def test_content_printed_differently_by_one_setting_is_the_same(spark: Any) -> None:
    values = [(decimal.Decimal("0.0000001"), datetime.datetime(2026, 11, 21, tzinfo=datetime.UTC), -0.0, 1e-3)]
    df = spark.createDataFrame(values, "d decimal(20,12), t timestamp, z double, x double")

    def ids() -> Any:
        return assign_ids(df, "content").first()["oncegate_id"]

    with conf(spark, spark__sql__ansi__enabled="true", spark__sql__session__timeZone="UTC"):
        first = ids()
    with conf(spark, spark__sql__ansi__enabled="false", spark__sql__session__timeZone="Asia/Tokyo"):
        assert ids() == first
    assert assign_ids(df.withColumn("z", F.lit(0.0)), "content").first()["oncegate_id"] == first


def test_rows_that_run_together_in_a_naive_text_have_ids_of_their_own(spark: Any) -> None:
    tricky = [("a", "bc"), ("ab", "c"), (None, "a"), ("a", None), ("", "a"), ("a", ""), ("s1:a", "-"), ("-", "s1:a")]
    df = assign_ids(spark.createDataFrame(tricky, "x string, y string"), "content")
    ids = [row["oncegate_id"] for row in df.collect()]
    assert len(set(ids)) == len(tricky)
    assert {one.split("-")[1] for one in ids} == {"0"}


def test_a_column_without_a_text_of_its_own_is_refused_on_the_driver(spark: Any) -> None:
    for column in ("array(1.5D)", "interval 1 day", "parse_json('1')"):
        with pytest.raises(Refused, match=r"column v holds .* no stable text"):
            assign_ids(spark.sql(f"select {column} v"), "content")


def test_rows_that_agree_in_the_columns_that_count_and_differ_elsewhere_fail_the_job(spark: Any) -> None:
    rows = spark.createDataFrame([("k", 1), ("l", 1), ("l", 1)], "key string, other int")
    assert assign_ids(rows, "content", cols=["key"]).select("oncegate_id").distinct().count() == 3
    more = rows.union(spark.createDataFrame([("k", 2)], rows.schema))
    with pytest.raises(Exception, match=r"two rows agree in \['key'\] and differ elsewhere"):
        assign_ids(more, "content", cols=["key"]).collect()


def test_content_and_position_are_refused_in_a_stream_with_the_reason(spark: Any, files: str) -> None:
    stream = spark.readStream.schema("n bigint, text string").parquet(files)
    for given in ({"by": "content"}, {"by": "position", "order_by": ["n"], "scope": "s"}):
        with pytest.raises(Refused, match="a stream is never complete"):
            assign_ids(stream, **given)


def test_inside_foreach_batch_content_needs_to_know_whether_batches_share_their_rows(job: Job) -> None:
    seen: list[set[str]] = []
    told: list[str] = []

    def write(df: Any, batch: int) -> None:
        try:
            assign_ids(df, "content")
        except BadOption as error:
            told.append(str(error))
        seen.append({row["oncegate_id"] for row in assign_ids(df, "content", scope=f"{batch}").collect()})
        seen.append({row["oncegate_id"] for row in assign_ids(df, "content", scope="").collect()})

    job.add_file(1, 2)
    job.add_file(1, 2)
    job.run_each(job.stream(), write)
    assert len(told) == 2
    assert 'scope=f"{batch_id}"' in told[0]
    assert not seen[0] & seen[2]
    assert seen[1] == seen[3]


def test_a_position_is_a_rows_number_in_a_total_order(spark: Any, files: str) -> None:
    read = spark.read.parquet(files)
    first = by_row(assign_ids(read.where("n < 50"), "position", order_by=["text", "n"], scope="flights"))
    with small_splits(spark):
        cut = spark.read.parquet(files).repartition(4).where("n < 50")
        assert by_row(assign_ids(cut, "position", order_by=["text", "n"], scope="flights")) == first
    assert sorted(first.values(), key=lambda one: int(one.split("#")[1])) == [f"flights#{n}" for n in range(50)]
    assert first[0] == "flights#0"


def test_two_rows_that_tie_in_the_order_fail_the_job(spark: Any, files: str) -> None:
    read = spark.read.parquet(files)
    with pytest.raises(Exception, match=r"two rows agree in \['text'\]; which of them comes first is not stable"):
        assign_ids(read, "position", order_by=["text"], scope="s").collect()
    nulls = spark.sql("select cast(null as int) v union all select null")
    with pytest.raises(Exception, match="two rows agree in"):
        assign_ids(nulls, "position", order_by=["v"], scope="s").collect()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"by": "rows"}, "source, content, position"),
        ({"by": "source", "cols": ["text"]}, "has no argument cols; it has topic"),
        ({"by": "content", "cols": []}, "name each relevant column once"),
        ({"by": "content", "cols": ["nope"]}, r"the rows have \['n', 'text'\]"),
        ({"by": "content", "name": "n"}, "choose another name="),
        ({"by": "position"}, "needs a total order"),
        ({"by": "position", "order_by": ["nope"], "scope": "s"}, r"the columns are \['n', 'text'\]"),
        ({"by": "position", "order_by": ["n"]}, 'scope="<a name for this input>"'),
    ],
)
def test_a_wrong_argument_is_answered_before_a_job_starts(spark: Any, given: dict[str, Any], told: str) -> None:
    with pytest.raises(BadOption, match=told):
        assign_ids(spark.createDataFrame([(1, "x")], "n bigint, text string"), **given)
