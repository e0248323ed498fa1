"""A stream that begins before its topic exists, without Spark."""

import logging
from collections.abc import Iterator

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import LongType, StringType, StructField, StructType

from oncegate_spark.errors import BadOption, NotFound, Refused
from oncegate_spark.spark.readers import StreamReader
from tests.spark.jobs.stub_topic import Read, StubTopic, rows

COLUMNS = StructType([StructField("n", LongType()), StructField("text", StringType())])


class Waits(Read):
    """A source whose streams get the columns as an option and wait for the topic."""

    def stream(self, **options: str) -> StreamReader:
        self.streams.append(self.source(**options, waitForTopic="true").streamReader(COLUMNS))
        return self.streams[-1]


@pytest.fixture
def read() -> Iterator[Waits]:
    made = Waits(StubTopic([0, 0], [7, 3], is_there=False))
    with made.stub:
        yield made
        for stream in made.streams:
            stream.stop()


def test_a_stream_waits_for_its_topic_and_reads_it_from_the_first_row(
    read: Waits, caplog: pytest.LogCaptureFixture
) -> None:
    stream, limit = read.stream(), ReadMaxRows(4)
    with caplog.at_level(logging.WARNING, "oncegate_spark"):
        assert stream.initialOffset() == {}
    assert "topic t does not exist yet, or has no columns: the stream waits" in caplog.text
    assert stream.latestOffset({}, limit) == {}
    assert stream.partitions({}, {}) == []
    read.topic.is_there, read.topic.has_columns = True, False
    assert stream.latestOffset({}, limit) == {}
    read.topic.has_columns = True
    end = stream.latestOffset({}, limit)
    assert end == {"0": 2, "1": 2}
    for reader in (stream, read.stream()):  # the second one as after a crash: the batch is replayed
        assert [row["text"] for row in rows(reader, reader.partitions({}, end))] == ["0/0", "0/1", "1/0", "1/1"]


def test_with_available_now_a_stream_ends_where_there_is_no_topic(read: Waits) -> None:
    stream = read.stream()
    stream.prepareForTriggerAvailableNow()
    read.topic.is_there = True
    assert stream.latestOffset({}, ReadAllAvailable()) == {}


def test_waiting_for_an_impossible_condition_is_reported(read: Waits) -> None:
    with pytest.raises(BadOption, match=r'waitForTopic requires spark.readStream.schema\("<column> <type>'):
        read.source(waitForTopic="true").schema()
    with pytest.raises(BadOption, match="startingOffsets has offsets, and topic t, which is waited for, has no row"):
        read.stream(startingOffsets='{"0": 3, "1": 1}').initialOffset()
    with pytest.raises(NotFound):  # the topic existed, because rows of it were read
        read.stream().latestOffset({"0": 3, "1": 1}, ReadAllAvailable())
    read.topic.has_namespace = False
    with pytest.raises(NotFound, match="no namespace"):
        read.stream().initialOffset()


def test_a_read_that_does_not_wait_explains_how_to(read: Waits) -> None:
    for source in (read.source(), read.source(waitForTopic="false")):
        with pytest.raises(NotFound, match=r'schema\(.*\)\.option\("waitForTopic", "true"\)'):
            source.schema()
    read.topic.is_there, read.topic.has_columns = True, False
    with pytest.raises(Refused, match=r'has no columns yet.*option\("waitForTopic", "true"\)'):
        read.source().schema()


def test_a_topic_that_is_there_is_read_as_without_waiting(read: Waits) -> None:
    read.topic.is_there = True
    for starting, first in (("earliest", {"0": 0, "1": 0}), ("latest", {"0": 7, "1": 3})):
        assert read.stream(startingOffsets=starting).initialOffset() == first
    assert read.source(waitForTopic="true").schema().names == ["n", "text"]
