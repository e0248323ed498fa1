"""The source's treatment of answers that are short, corrupt, trimmed or of an older ledger, without Spark."""

import logging
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from oncegate_spark.errors import BadOption, LedgerBehind, OncegateError, Stopped, TaskFailed
from oncegate_spark.spark.datasource import OncegateSource
from oncegate_spark.spark.readers import ReadOptions, schema
from tests.spark.jobs.stub_topic import Read, StubTopic, rows
from tests.support.stub_gateway import Answer, problem

LEAST = {"url": "http://127.0.0.1:1", "topic": "t"}


@pytest.fixture
def read() -> Iterator[Read]:
    made = Read(StubTopic([0, 0], [7, 3]))
    with made.stub:
        yield made
        for stream in made.streams:
            stream.stop()


def test_a_short_answer_is_asked_on_until_the_range_is_covered(read: Read) -> None:
    read.topic.most = 2
    reader = read.batch(includeOffsets="true")
    got = rows(reader, reader.partitions())
    assert [(row["_partition"], row["_offset"], row["n"]) for row in got] == [
        *((0, n, n) for n in range(7)),
        *((1, n, n) for n in range(3)),
    ]
    assert read.topic.asked[-6:] == [(0, 0), (0, 2), (0, 4), (0, 6), (1, 0), (1, 2)]


def test_an_answer_beyond_the_end_of_a_range_is_never_asked_for(read: Read) -> None:
    reader = read.stream()
    assert [row["n"] for row in rows(reader, reader.partitions({"0": 2, "1": 3}, {"0": 5, "1": 3}))] == [2, 3, 4]


def test_a_range_that_begins_where_it_ends_needs_no_task(read: Read) -> None:
    reader = read.stream()
    assert reader.partitions({"0": 7, "1": 3}, {"0": 7, "1": 3}) == []


@pytest.mark.parametrize("claimed", ["3", "9"])
def test_an_answer_whose_rows_and_offsets_disagree_fails_the_task(read: Read, claimed: str) -> None:
    reader = read.batch()
    parts = reader.partitions()
    honest = read.topic.records

    def lying(*asked: Any) -> Answer:
        answer = honest(*asked)
        return Answer(body=answer.body, headers={"Oncegate-Next-Offset": claimed})

    read.topic.records = lying  # type: ignore[method-assign]
    with pytest.raises(TaskFailed, match=r"7 rows from offset 0 to .* rows would be lost or repeated") as raised:
        rows(reader, parts)
    assert raised.value.code == "BROKEN_ANSWER"


def test_a_topic_that_ends_before_the_planned_range_is_an_older_ledger(read: Read) -> None:
    reader = read.batch()
    parts = reader.partitions()
    read.topic.high = [4, 3]
    with pytest.raises(TaskFailed, match=r"ends at 4, but it ended at 7 or later.*older copy of its ledger") as raised:
        rows(reader, parts)
    assert raised.value.code == "LEDGER_BEHIND"


def test_a_stream_that_has_read_beyond_the_end_stops(read: Read) -> None:
    reader = read.stream()
    with pytest.raises(LedgerBehind, match="was read up to 8 and ends at 7"):
        reader.latestOffset({"0": 8, "1": 0}, ReadAllAvailable())
    with pytest.raises(LedgerBehind, match="was read up to 4 and ends at 3"):
        reader.partitions({"0": 0, "1": 0}, {"0": 7, "1": 4})


def test_trimmed_offsets_fail_the_plan_with_what_was_lost(read: Read) -> None:
    read.topic.low = [4, 0]
    message = r'4 rows of topic t, partition 0, are lost: the offsets 0 to 3.*option\("failOnDataLoss", "false"\)'
    with pytest.raises(Stopped, match=message):
        read.stream().partitions({"0": 0, "1": 0}, {"0": 7, "1": 3})
    with pytest.raises(Stopped, match=message):
        read.batch(startingOffsets='{"0": 0, "1": 0}').partitions()


def test_trimmed_offsets_are_skipped_and_reported_when_data_may_be_lost(
    read: Read, caplog: pytest.LogCaptureFixture
) -> None:
    read.topic.low = [4, 0]
    reader = read.stream(failOnDataLoss="false")
    with caplog.at_level(logging.WARNING, "oncegate_spark"):
        parts = reader.partitions({"0": 0, "1": 0}, {"0": 7, "1": 3})
    assert [row["text"] for row in rows(reader, parts)] == ["0/4", "0/5", "0/6", "1/0", "1/1", "1/2"]
    assert "4 rows of topic t, partition 0, are lost" in caplog.text


@pytest.mark.parametrize(("low", "left", "lost"), [(4, 3, 4), (9, 0, 7)])
def test_rows_that_are_trimmed_while_a_task_reads_are_treated_alike(
    read: Read, caplog: pytest.LogCaptureFixture, low: int, left: int, lost: int
) -> None:
    strict, lenient = read.stream(), read.stream(failOnDataLoss="false")
    (part,) = strict.partitions({"0": 0, "1": 3}, {"0": 7, "1": 3})
    read.topic.low, read.topic.high = [low, 0], [9, 3]
    with pytest.raises(TaskFailed, match=rf"{lost} rows of topic t.*failOnDataLoss") as raised:
        rows(strict, [part])
    assert raised.value.code == "OFFSET_TRIMMED"
    with caplog.at_level(logging.WARNING, "oncegate_spark"):
        assert len(rows(lenient, [part])) == left
    assert f"{lost} rows of topic t" in caplog.text


@pytest.mark.parametrize("low", [0, 3])
def test_an_answer_that_contradicts_itself_about_trimmed_offsets_fails_the_task(
    read: Read, monkeypatch: pytest.MonkeyPatch, low: int
) -> None:
    """A retry would never end: the offset to continue from is the requested one, or an earlier one."""
    reader, records = read.stream(failOnDataLoss="false"), read.topic.records
    (part,) = reader.partitions({"0": 3, "1": 3}, {"0": 7, "1": 3})
    spoilt = [problem(410, "OFFSET_TRIMMED", "fix", low_offset=low)]
    monkeypatch.setattr(read.topic, "records", lambda *asked: spoilt.pop() if spoilt else records(*asked))
    with pytest.raises(TaskFailed) as raised:
        rows(reader, [part])
    assert raised.value.code == "OFFSET_TRIMMED"


def test_a_stream_reads_at_most_its_limit_and_continues_where_it_ended(read: Read) -> None:
    reader = read.stream(maxRowsPerBatch="4")
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMaxRows(4)
    start, seen = reader.initialOffset(), []
    while (end := reader.latestOffset(start, limit)) != start:
        seen.append([row["text"] for row in rows(reader, reader.partitions(start, end))])
        start = end
    assert [len(batch) for batch in seen] == [4, 4, 2]
    assert sorted(text for batch in seen for text in batch) == [
        *(f"0/{n}" for n in range(7)),
        *(f"1/{n}" for n in range(3)),
    ]
    assert reader.latestOffset({"0": 0, "1": 0}, ReadAllAvailable()) == {"0": 7, "1": 3}
    assert reader.reportLatestOffset() == {"0": 7, "1": 3}


def test_available_now_ends_where_the_topic_ended_when_the_run_began(read: Read) -> None:
    reader = read.stream()
    reader.prepareForTriggerAvailableNow()
    read.topic.high = [100, 100]
    assert reader.latestOffset({"0": 0, "1": 0}, ReadAllAvailable()) == {"0": 7, "1": 3}
    assert reader.latestOffset({"0": 7, "1": 3}, ReadAllAvailable()) == {"0": 7, "1": 3}
    read.topic.low = [50, 0]
    lenient = read.stream(failOnDataLoss="false")
    lenient._target = {0: 7, 1: 3}
    assert lenient.latestOffset({"0": 0, "1": 3}, ReadMaxRows(1)) == {"0": 7, "1": 3}


def test_trimmed_rows_use_up_no_limit(read: Read) -> None:
    read.topic.low, read.topic.high = [1_000, 0], [1_010, 3]
    end = read.stream(failOnDataLoss="false").latestOffset({"0": 0, "1": 3}, ReadMaxRows(4))
    assert end == {"0": 1_004, "1": 3}


def test_a_stream_begins_at_its_configured_offset(read: Read) -> None:
    assert read.stream().initialOffset() == {"0": 0, "1": 0}
    assert read.stream(startingOffsets="latest").initialOffset() == {"0": 7, "1": 3}
    assert read.stream(startingOffsets='{"0": 3, "1": 1}').initialOffset() == {"0": 3, "1": 1}
    with pytest.raises(BadOption, match="offset 8 for partition 0, and topic t ends there at 7"):
        read.stream(startingOffsets='{"0": 8, "1": 1}').initialOffset()


def test_a_batch_reads_between_the_offsets_it_is_given(read: Read) -> None:
    reader = read.batch(startingOffsets='{"0": 3, "1": 1}', endingOffsets='{"0": 5, "1": 1}')
    assert [row["text"] for row in rows(reader, reader.partitions())] == ["0/3", "0/4"]
    with pytest.raises(BadOption, match="from 5 to 3, which is before it"):
        read.batch(startingOffsets='{"0": 5, "1": 1}', endingOffsets='{"0": 3, "1": 1}').partitions()


def test_only_the_columns_that_are_named_are_read(read: Read) -> None:
    reader = read.batch(columns="text", includeOffsets="true")
    got = rows(reader, reader.partitions())
    assert list(got[0]) == ["text", "_partition", "_offset"]
    only = StructType([StructField("_offset", LongType())])
    reader = read.source(includeOffsets="true").reader(only)
    assert [row["_offset"] for row in rows(reader, reader.partitions())] == [*range(7), *range(3)]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"columns": "n,nope"}, "columns has nope; topic t has n, text"),
        ({"columns": "n,n"}, "each once"),
        ({"columns": " "}, r'option\("columns"'),
        ({"startingOffsets": "now"}, "earliest, latest or an offset"),
        ({"maxRowsPerBatch": "0"}, "whole number of rows, 1 to"),
        ({"failOnDataLoss": "maybe"}, "one of true, false"),
        ({"includeOffset": "true"}, r'did you mean .option\("includeOffsets"'),
        ({"topic": ""}, 'add .option\\("topic"'),
    ],
)
def test_a_wrong_option_is_answered_with_the_line_to_write(read: Read, options: dict[str, str], told: str) -> None:
    with pytest.raises(BadOption, match=told):
        read.source(**options).schema()


def test_what_only_streams_or_only_batches_have_is_refused_to_the_other(read: Read) -> None:
    with pytest.raises(BadOption, match=r"endingOffsets is for spark\.read"):
        read.stream(endingOffsets="latest")
    with pytest.raises(BadOption, match=r"maxRowsPerBatch is for spark\.readStream"):
        read.batch(maxRowsPerBatch="5")
    with pytest.raises(BadOption, match=r"waitForTopic is for spark\.readStream"):
        read.batch(waitForTopic="false")
    kafkas = {"startingOffsets": '{"t": {"0": 1, "1": -1}}'}, {"endingOffsets": '{"t": {"0": -2, "1": 1}}'}
    for options in ({"startingOffsets": "latest"}, {"endingOffsets": "earliest"}, *kafkas):
        with pytest.raises(BadOption, match="leave nothing"):
            read.batch(**options)


def test_a_schema_that_the_topic_has_not_is_refused_on_the_driver(read: Read) -> None:
    for field, told in (
        (StructField("nope", LongType()), "the schema has nope; a read of topic t has n, text"),
        (StructField("n", IntegerType()), "the schema has n as int, and it is bigint"),
    ):
        wanted = StructType([field])
        with pytest.raises(BadOption, match=told):
            read.source().reader(wanted).partitions()
        stream = read.source().streamReader(wanted)
        read.streams.append(stream)
        with pytest.raises(BadOption, match=told):
            stream.initialOffset()


def test_an_unreachable_gateway_is_reported_on_the_driver(read: Read) -> None:
    for on_down, how in (("block", ""), ("fail", "on_down allows no further retries, after 1 tries")):
        options = {"url": "http://127.0.0.1:1", "topic": "t", "timeoutMs": "1000", "onDown": on_down}
        source = OncegateSource(options)
        with pytest.raises(OncegateError, match=rf"look at topic t.*127\.0\.0\.1:1.*{how}"):
            source.schema()


def test_columns_come_in_the_layout_that_spark_insists_on() -> None:
    arrow = pa.schema(
        [
            pa.field("s", pa.large_string()),
            pa.field("t", pa.timestamp("ms", "Europe/Berlin")),
            pa.field("d", pa.dictionary(pa.int8(), pa.string())),
            pa.field("l", pa.list_(pa.field("item", pa.int32(), nullable=False))),
        ]
    )
    wanted = schema.columns_of(arrow, ReadOptions.read(LEAST))
    values = {"s": ["a", None], "t": [0, 1], "d": ["x", "x"], "l": [[1], []]}
    table = pa.table({name: pa.array(values[name], arrow.field(name).type) for name in arrow.names}, schema=arrow)
    laid = schema.laid_out(table, schema.layout(wanted), 0, 0)
    assert laid.schema.equals(schema.layout(wanted))
    assert laid.column("t").to_pylist()[1].microsecond == 1_000


def test_a_column_that_spark_has_no_type_for_is_named() -> None:
    with pytest.raises(BadOption, match=r'column u of topic t is uint64.*option\("columns"'):
        schema.columns_of(pa.schema([("u", pa.uint64())]), ReadOptions.read(LEAST))
    with pytest.raises(BadOption, match="has a column _offset of its own"):
        schema.columns_of(pa.schema([("_offset", pa.int64())]), ReadOptions.read({**LEAST, "includeOffsets": "true"}))
