"""Rows with the columns of Spark's Kafka sink: values read from them, refusals, and the partition of each row."""

import os
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from aiokafka.record.default_records import DefaultRecordBatch

from oncegate.core.errors import BadRequest, NotFound, SchemaMismatch
from oncegate.ledgers.kafka.record_batch import Field, encode
from oncegate.ledgers.kafka.rows import partitions
from oncegate.ledgers.kafka.rows.contract import columns_of
from oncegate.ledgers.kafka.rows.partitions import Share, murmur2, shares

SEED = int(os.environ.get("ONCEGATE_SEED", "20261123"))
NOW_MS = 1_795_000_000_000
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
# Hashes from Kafka's own tests (UtilsTest.testMurmur2), signed there.
GOLDEN = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


def shared(
    columns: dict[str, Any], topic: str | None = "t", counts: dict[str, int] | None = None, turn: int = 0
) -> list[Share]:
    """Returns each partition's share of a table that is cut into record batches of two rows."""
    table = pa.table(columns)
    batches = table.to_batches(max_chunksize=2)
    return shares(columns_of(table.schema, batches, topic, NOW_MS), {"t": 1} if counts is None else counts, turn)


def read(share: Share) -> list[tuple[Any, ...]]:
    """Returns the records of a share as aiokafka reads them."""
    found = []
    for batch in encode(share.records):
        encoded = batch.of_producer(1, 0, 0)
        found += [(r.timestamp, r.key, r.value, r.headers) for r in DefaultRecordBatch(bytes(encoded))]
    return found


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()])
def test_every_column_of_the_contract_is_in_the_record(kind: Any) -> None:
    columns = {
        "key": pa.array(["a", None, "", "dd"]).cast(kind),
        "value": pa.array(["one", "", None, "four"]).cast(kind),
        "headers": pa.array([[("h", b"1"), ("h", None)], [], None, [("ä", b"")]], HEADERS),
        "timestamp": pa.array([1_000_999, None, 0, 3_000_000], pa.timestamp("us", "UTC")),
    }
    (share,) = shared(columns)
    assert read(share) == [
        (1_000, b"a", b"one", [("h", b"1"), ("h", None)]),
        (NOW_MS, None, b"", []),
        (0, b"", None, []),
        (3_000, b"dd", b"four", [("ä", b"")]),
    ]


def test_a_sliced_table_is_read_where_its_slice_begins() -> None:
    table = pa.table(
        {
            "key": [f"k{row}" for row in range(9)],
            "value": [b"v" * row for row in range(9)],
            "headers": pa.array([[(f"h{row}", b"x")] * row for row in range(9)], HEADERS),
        }
    ).slice(3, 4)
    (share,) = shares(columns_of(table.schema, table.to_batches(), "t", NOW_MS), {"t": 1}, 0)
    assert read(share) == [(NOW_MS, f"k{row}".encode(), b"v" * row, [(f"h{row}", b"x")] * row) for row in range(3, 7)]


@pytest.mark.parametrize(
    ("columns", "topic", "said"),
    [
        ({"value": ["v"]}, None, "topic option required when there is no column 'topic'"),
        ({"key": ["v"]}, "t", "required column 'value' not found: select to_json"),
        ({"value": [1]}, "t", "column 'value' must be string or binary, and is int64: cast it"),
        (
            {"value": ["v"], "carrier": ["UA"]},
            "t",
            r"column 'carrier' is none .* select to_json\(struct\(\*\)\) AS value",
        ),
        ({"value": ["v"], "partition": [1]}, "t", "column 'partition' must be int, and is int64"),
        ({"value": ["v"], "key": [1.5]}, "t", "column 'key' must be string or binary"),
        ({"value": ["v"], "topic": [b"t"]}, None, "column 'topic' must be string"),
        ({"value": ["v"], "headers": [["h"]]}, "t", "column 'headers' must be array<struct<key: string"),
        ({"value": ["v"], "timestamp": [1]}, "t", "column 'timestamp' must be timestamp"),
    ],
)
def test_a_schema_beside_the_contract_is_refused_by_the_columns_name(
    columns: dict[str, Any], topic: str | None, said: str
) -> None:
    with pytest.raises(SchemaMismatch, match=said) as refused:
        shared(columns, topic)
    assert "nothing was written" in str(refused.value)


def test_the_option_topic_goes_before_the_column_as_with_sparks_own_sink() -> None:
    (share,) = shared({"value": ["v", "w"], "topic": ["a", None]}, "t")
    assert share.partition == ("t", 0)


def test_a_row_without_a_topic_is_refused_by_its_number() -> None:
    with pytest.raises(BadRequest, match="null topic in row 2: set the option topic"):
        shared({"value": ["v"] * 4, "topic": ["t", "t", None, "t"]}, None)


def test_a_header_without_a_key_is_refused_by_its_row() -> None:
    headers = pa.array([[("h", b"1")], [], [("h", b"1"), (None, b"1")]], HEADERS)
    with pytest.raises(BadRequest, match="a header without a key in row 2"):
        shared({"value": ["v"] * 3, "headers": headers})


def test_a_time_before_1970_is_refused_by_its_row() -> None:
    with pytest.raises(BadRequest, match="timestamp before 1970 in row 1"):
        shared({"value": ["v"] * 2, "timestamp": pa.array([1, -1], pa.timestamp("s"))})


def test_rows_go_to_the_topic_and_the_partition_that_they_name_in_their_order() -> None:
    columns = {
        "value": [b"0", b"1", b"2", b"3", b"4"],
        "topic": ["b", "a", "b", "a", "b"],
        "partition": pa.array([1, 0, 0, 0, 1], pa.int32()),
    }
    found = shared(columns, None, {"a": 1, "b": 2})
    told = {share.partition: (share.rows.tolist(), [value for _, _, value, _ in read(share)]) for share in found}
    assert told == {("a", 0): ([1, 3], [b"1", b"3"]), ("b", 0): ([2], [b"2"]), ("b", 1): ([0, 4], [b"0", b"4"])}


@pytest.mark.parametrize("wrong", [2, -1, -7])
def test_a_partition_that_a_topic_has_not_is_refused_by_its_row(wrong: int) -> None:
    with pytest.raises(BadRequest, match=f"row 1 names partition {wrong} of topic 't', which has 2"):
        shared({"value": ["v"] * 2, "partition": pa.array([1, wrong], pa.int32())}, "t", {"t": 2})


def test_a_topic_that_is_not_there_is_refused_by_its_name() -> None:
    with pytest.raises(NotFound, match="no Kafka topic 'elsewhere'"):
        shared({"value": ["v"] * 2, "topic": ["t", "elsewhere"]}, None)


def test_keys_have_the_hashes_of_kafkas_own_tests() -> None:
    keys = list(GOLDEN)
    lengths = np.array([len(key) for key in keys], np.int64)
    field = Field(np.frombuffer(b"".join(keys), np.uint8), np.cumsum(lengths) - lengths, lengths)
    assert murmur2(field).astype(np.uint32).view(np.int32).tolist() == list(GOLDEN.values())


def test_a_key_decides_the_partition_and_rows_without_one_follow_the_turn() -> None:
    keys = [b"21", None, b"foobar", None, b""]
    found = shared({"key": keys, "value": ["v"] * 5}, counts={"t": 7}, turn=12)
    of_rows = {row: share.partition.number for share in found for row in share.rows.tolist()}
    empty = int(murmur2(Field(np.zeros(0, np.uint8), np.zeros(1, np.int64), np.zeros(1, np.int64)))[0]) & 0x7FFFFFFF
    named = [(GOLDEN[key] & 0x7FFFFFFF) % 7 for key in (b"21", b"foobar")]
    assert [of_rows[row] for row in range(5)] == [named[0], 5, named[1], 5, empty % 7]


def test_a_named_partition_goes_before_the_key() -> None:
    columns = {"key": ["foobar"] * 2, "value": ["v"] * 2, "partition": pa.array([3, None], pa.int32())}
    found = shared(columns, counts={"t": 7})
    assert {share.partition.number: share.rows.tolist() for share in found} == {
        3: [0],
        (GOLDEN[b"foobar"] & 0x7FFFFFFF) % 7: [1],
    }


def test_no_row_is_lost_or_doubled_over_many_topics_and_partitions() -> None:
    rng = np.random.default_rng(SEED)
    rows = 5_000
    topics = [f"topic-{number}" for number in rng.integers(0, 5, rows)]
    keys = [None if row % 3 == 0 else rng.bytes(int(rng.integers(0, 9))) for row in range(rows)]
    values = [str(row).encode() for row in range(rows)]
    columns = {"key": pa.array(keys, pa.binary()), "value": values, "topic": topics}
    found = shared(columns, None, {f"topic-{number}": number + 1 for number in range(5)}, turn=3)
    told = {int(value): (share.partition.topic, key) for share in found for _, key, value, _ in read(share)}
    assert told == {row: (topics[row], keys[row]) for row in range(rows)}, f"seed {SEED}"
    assert sum(len(share.rows) for share in found) == rows
    assert all((np.diff(share.rows) > 0).all() for share in found)


def test_no_rows_have_no_shares() -> None:
    assert shared({"value": pa.array([], pa.string()), "topic": pa.array([], pa.string())}, None) == []


def test_no_hash_is_compiled_for_what_comes_after_the_start() -> None:
    partitions.warm_up()
    before = len(partitions._murmur2.signatures)
    shared({"key": ["a", None, "b"], "value": ["v"] * 3})
    assert len(partitions._murmur2.signatures) == before
