"""Option names of other connectors: accepted if they mean the same, otherwise answered with the right name."""

from typing import Any

import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from oncegate_spark.errors import BadOption
from oncegate_spark.spark.options import HABITS, OPTIONS, Options, tables
from oncegate_spark.spark.options.habits import SAME_ON_READS, Habit
from oncegate_spark.spark.readers import ReadOptions

LEAST = {"url": "http://127.0.0.1:8080", "path": "t"}
CLAIM = {"url": "http://x", "write": "claim", "idCol": "id", "sink": "a:b"}
COLUMNS = StructType([StructField("id", StringType()), StructField("n", LongType())])


@pytest.mark.parametrize("habit", HABITS, ids=lambda habit: habit.name)
def test_an_option_of_another_connector_is_answered_in_one_line(habit: Habit) -> None:
    reads = [] if habit.name in SAME_ON_READS else [ReadOptions.read]
    for read in (*reads, Options.read):
        with pytest.raises(BadOption) as raised:
            read({**LEAST, habit.name: "1"})
        message = str(raised.value)
        assert message == f"{habit.name} is an option of {habit.connector}; {habit.here}"
        assert "\n" not in message


def test_each_recommended_replacement_is_an_option_of_ours() -> None:
    ours = {option.name for option in OPTIONS}
    for habit in HABITS:
        for named in habit.here.split('.option("')[1:]:
            assert named.split('"')[0] in ours


def test_any_option_of_a_kafka_client_is_answered() -> None:
    with pytest.raises(
        BadOption, match=r"^kafka\.security\.protocol is an option of Kafka; no Kafka client is used here"
    ):
        ReadOptions.read({**LEAST, "kafka.security.protocol": "SSL"})


def test_with_claim_they_are_the_users_sinks() -> None:
    assert Options.read({**CLAIM, "kafka.bootstrap.servers": "k", "dbtable": "d"}).raw["dbtable"] == "d"


def test_a_read_accepts_options_with_the_same_meaning() -> None:
    read = ReadOptions.read({"url": "http://x", "subscribe": " t ", "maxOffsetsPerTrigger": "50"})
    assert (read.topic, read.max_rows) == ("t", 50)
    again = ReadOptions.read({"url": "http://x", "subscribe": "t", "topic": "t"})
    assert again.topic == "t"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"subscribe": "a,b"}, "subscribe is 'a,b', and a read covers one topic: read each, and unionByName"),
        ({"subscribe": "a", "topic": "t"}, "subscribe is 'a' and topic is 't'; set only one of them"),
        ({"subscribe": "a", "path": "t"}, "set only one of them"),
        ({"topic": "t", "maxOffsetsPerTrigger": "1", "maxRowsPerBatch": "2"}, "maxOffsetsPerTrigger is '1' and max"),
        ({"topic": "t", "maxOffsetsPerTrigger": "none"}, "a whole number of rows"),
    ],
)
def test_what_contradicts_itself_is_refused(given: dict[str, str], told: str) -> None:
    with pytest.raises(BadOption, match=told):
        ReadOptions.read({"url": "http://x", **given})


def test_the_options_of_a_table_travel_with_its_columns_and_are_the_defaults() -> None:
    made = tables.of_create_table({"provider": "oncegate", "owner": "me", "option.url": "http://x", "url": "http://x"})
    assert made == {"url": "http://x"}
    kept = tables.remembered(COLUMNS, {"url": "http://x", "topic": "t"})
    assert kept.names == COLUMNS.names
    assert tables.bare(kept) == COLUMNS
    assert tables.of_a_read({"startingOffsets": "latest"}, kept) == {
        "url": "http://x",
        "topic": "t",
        "startingOffsets": "latest",
    }


@pytest.mark.parametrize("given", [{"url": "http://y"}, {"Topic": "u"}, {"path": "u"}, {"namespace": "n"}])
def test_a_read_with_a_location_ignores_the_tables_options(given: dict[str, Any]) -> None:
    assert tables.of_a_read(given, tables.remembered(COLUMNS, {"url": "http://x", "topic": "t"})) == given


def test_a_location_of_a_table_is_refused() -> None:
    with pytest.raises(BadOption, match="no LOCATION"):
        tables.of_create_table({"provider": "oncegate", "location": "/x", "option.url": "http://x"})
    assert tables.of_create_table({"url": "http://x"}) is None


def test_a_read_and_a_write_without_options_name_the_missing_ones() -> None:
    with pytest.raises(BadOption, match=r"load\('<topic>'\).*CREATE TEMPORARY VIEW"):
        tables.check_read({"startingoffsets": "latest"})
    with pytest.raises(BadOption, match=r"save\('<topic>'\) in place of insertInto.*INSERT INTO <table> WITH"):
        tables.check_write({"txnappid": "a"}, is_stream=False)
    with pytest.raises(BadOption, match=r"start\('<topic>'\) in place of toTable"):
        tables.check_write({"checkpointlocation": "/c"}, is_stream=True)
    tables.check_write({"url": "http://x"}, is_stream=True)
