"""Arrow streams from untrusted clients: complete and plain, or refused before they can do harm."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncegate.core.errors import BadRequest, OncegateError, TooLarge
from oncegate.engine.limits import Limits
from oncegate.transports.decode.arrow_ipc import read_rows, read_stream, record_bytes
from tests.support.http_app import stream

BATCH = pa.record_batch({"id": ["a", "bb", None], "n": [1, 2, 3]})
WHOLE = stream(BATCH, BATCH)
LIMITS = Limits(record_bytes=1 << 20)


def test_a_whole_stream_is_read_with_all_its_batches() -> None:
    rows = read_rows(WHOLE, LIMITS)
    assert rows.rows == 6
    assert rows.batches == [BATCH, BATCH]
    assert rows.data == WHOLE


def test_a_stream_without_batches_has_no_rows() -> None:
    assert read_rows(stream(schema=BATCH.schema), LIMITS).rows == 0


@pytest.mark.parametrize("data", [b"", b"hello", b"\0" * 64, b"\xff" * 64, WHOLE[:-30], WHOLE[:100], WHOLE[8:]])
def test_malformed_bytes_are_refused_in_one_line(data: bytes) -> None:
    with pytest.raises(BadRequest, match="Arrow stream") as caught:
        read_rows(data, LIMITS)
    assert "\n" not in caught.value.detail


def test_bytes_after_the_end_of_the_stream_are_refused() -> None:
    with pytest.raises(BadRequest, match="5 bytes follow the end"):
        read_rows(WHOLE + b"extra", LIMITS)


@settings(max_examples=300, deadline=None)
@given(at=st.integers(0, len(WHOLE) - 1), bit=st.integers(0, 7))
def test_a_flipped_bit_is_read_or_refused_and_never_crashes(at: int, bit: int) -> None:
    data = bytearray(WHOLE)
    data[at] ^= 1 << bit
    try:
        rows = read_rows(bytes(data), LIMITS)
    except OncegateError:
        return
    assert rows.rows == sum(batch.num_rows for batch in rows.batches)
    for batch in rows.batches:
        batch.to_pylist()


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_compressed_buffers_are_read_as_the_rows_they_were(codec: str) -> None:
    rows = read_rows(stream(BATCH, BATCH, compression=codec), LIMITS)
    assert (rows.rows, rows.batches) == (6, [BATCH, BATCH])


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_compressed_buffers_are_refused_by_what_they_announce_before_they_are_expanded(codec: str) -> None:
    zeros = pa.record_batch({"id": ["0" * 1000] * 1000})
    data = stream(zeros, zeros, compression=codec)
    assert len(data) < 40_000
    before = pa.total_allocated_bytes()
    with pytest.raises(TooLarge, match="when uncompressed; at most 1000000 are read"):
        read_stream(data, 1_000_000)
    assert pa.total_allocated_bytes() - before < 1_000_000
    assert read_stream(data, 3_000_000)[1] == [zeros, zeros]


def test_a_compressed_buffer_with_a_wrong_size_is_refused() -> None:
    data = bytearray(stream(pa.record_batch({"id": ["0" * 1000] * 1000}), compression="zstd"))
    at = data.index((1_000_000).to_bytes(8, "little"))
    data[at : at + 8] = (64).to_bytes(8, "little")
    with pytest.raises(BadRequest, match="cannot be read"):
        read_stream(bytes(data), 1 << 20)


def test_buffers_that_share_their_bytes_are_refused() -> None:
    """A body of some kilobytes could name the same bytes for thousands of columns."""
    batch = pa.record_batch({f"c{n}": pa.array(range(100), pa.int64()) for n in range(20)})
    assert read_rows(stream(batch), LIMITS).rows == 100
    data = bytearray(stream(batch))
    message = list(pa.ipc.MessageReader.open_stream(bytes(data)))[1]
    body, metadata = message.body.to_pybytes(), message.metadata.to_pybytes()
    at, start = data.index(body), data.index(metadata)
    length = len(body).to_bytes(8, "little")
    where = start + metadata.index(length)
    data[where : where + 8] = (len(body) // 20).to_bytes(8, "little")
    for offset in range(0, len(metadata) - 16, 8):
        first = int.from_bytes(metadata[offset : offset + 8], "little")
        size = int.from_bytes(metadata[offset + 8 : offset + 16], "little")
        if size == 800 and first < len(body) and first % 8 == 0:
            data[start + offset : start + offset + 8] = bytes(8)
    shared = bytes(data[:at] + data[at : at + len(body) // 20] + data[at + len(body) :])
    with pytest.raises(BadRequest, match="share bytes"):
        read_rows(shared, LIMITS)


@pytest.mark.parametrize(
    "column",
    [
        pa.nulls(3),
        pa.array(["a", "b", "a"]).dictionary_encode(),
        pa.array(["a", "b", "c"], pa.string_view()),
        pa.array([b"", b"", b""], pa.binary(0)),
        pa.array([[None], [], None], pa.list_(pa.null())),
        pa.RunEndEncodedArray.from_arrays([3], ["a"]),
        pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes(16)] * 3, pa.binary(16))),
    ],
    ids=lambda column: str(column.type)[:20],
)
def test_types_by_which_few_bytes_become_many_rows_are_refused(column: Any) -> None:
    with pytest.raises(BadRequest, match="column 'x' has the type"):
        read_rows(stream(pa.record_batch([column], names=["x"])), LIMITS)


def test_a_column_that_is_there_twice_is_refused() -> None:
    with pytest.raises(BadRequest, match="two columns named 'x'"):
        read_rows(stream(pa.record_batch([pa.array([1]), pa.array([2])], names=["x", "x"])), LIMITS)


def test_rows_without_columns_are_refused() -> None:
    with pytest.raises(BadRequest, match="no columns"):
        read_rows(stream(schema=pa.schema([])), LIMITS)


NESTED = pa.array(
    [{"a": [1, 2], "b": "xyz"}, None, {"a": None, "b": ""}], pa.struct({"a": pa.list_(pa.int64()), "b": pa.string()})
)


@pytest.mark.parametrize(
    ("column", "sizes"),
    [
        (pa.array(["a", "bb", None]), [1, 2, 0]),
        (pa.array([1, 2, 3], pa.int32()), [4, 4, 4]),
        (pa.array([True, False, None]), [1, 1, 1]),
        (pa.array([b"abcd"] * 3, pa.binary(4)), [4, 4, 4]),
        (pa.array([["a"], ["bb", "c"], None]), [1, 3, 0]),
        (pa.array([[1, 2], [3, 4], None], pa.list_(pa.int16(), 2)), [4, 4, 4]),
        (pa.array([[("k", "v")], [], None], pa.map_(pa.string(), pa.string())), [2, 0, 0]),
        (NESTED, [19, 0, 0]),
    ],
    ids=lambda value: str(getattr(value, "type", ""))[:20],
)
def test_the_bytes_of_each_record_are_counted(column: Any, sizes: list[int]) -> None:
    assert record_bytes(pa.record_batch([column], names=["x"])).tolist() == sizes
    sliced = pa.record_batch([pa.concat_arrays([column, column])[2:5]], names=["x"])
    assert record_bytes(sliced).tolist() == [sizes[2], sizes[0], sizes[1]]


def test_a_record_over_the_limit_is_named_and_the_largest_allowed_one_passes() -> None:
    batch = pa.record_batch({"id": ["a", "b" * 1000, "c"]})
    limits = Limits(record_bytes=1000)
    assert read_rows(stream(batch, batch), limits).rows == 6
    with pytest.raises(TooLarge, match="record 4 has 1001 bytes; at most 1000"):
        read_rows(stream(batch, pa.record_batch({"id": ["a", "b" * 1001, "c"]})), limits)


def test_more_rows_than_the_limit_are_refused_however_few_bytes_they_are() -> None:
    flags = pa.record_batch({"x": pa.array([True] * 1000)})
    assert read_rows(stream(flags), Limits(rows_per_request=1000)).rows == 1000
    with pytest.raises(TooLarge, match="2000 rows in one request; at most 1000"):
        read_rows(stream(flags, flags), Limits(rows_per_request=1000))


def test_a_batch_sent_as_a_slice_of_a_large_one_counts_only_its_own_rows() -> None:
    large = pa.record_batch({"id": pa.array(np.full(10_000, "x" * 50))})
    assert read_rows(stream(large.slice(10, 5)), Limits(record_bytes=100)).rows == 5
