"""Record batches encoded by columns: byte for byte those of aiokafka's builder, and accepted by a broker."""

import os
from collections.abc import Sequence

import numpy as np
import pytest
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from oncegate.ledgers.kafka import record_batch
from oncegate.ledgers.kafka.record_batch import (
    BATCH_BYTES,
    Field,
    RecordBatch,
    Records,
    RecordTooLarge,
    RowHeaders,
    encode,
)

SEED = int(os.environ.get("ONCEGATE_SEED", "20261123"))
PRODUCER = 7, 3, 11
Value = bytes | None


def field_of(values: Sequence[Value]) -> Field:
    lengths = np.array([-1 if value is None else len(value) for value in values], np.int64)
    starts = np.cumsum(np.maximum(lengths, 0)) - np.maximum(lengths, 0)
    # Unrelated bytes come first.
    data = np.frombuffer(b"??" + b"".join(value or b"" for value in values), np.uint8)
    return Field(data, starts + 2, lengths)


def records_of(times: Sequence[int], keys: Sequence[Value], values: Sequence[Value], **headers: list[Value]) -> Records:
    columns = [(name, field_of(column)) for name, column in headers.items()]
    return Records(np.array(times, np.int64), field_of(keys), field_of(values), columns)


def by_builder(times: Sequence[int], keys: Sequence[Value], values: Sequence[Value], **headers: list[Value]) -> bytes:
    builder = DefaultRecordBatchBuilder(2, 0, 1, *PRODUCER, batch_size=1 << 30)
    for row, (time_ms, key, value) in enumerate(zip(times, keys, values, strict=True)):
        builder.append(row, time_ms, key, value, [(name, column[row]) for name, column in headers.items()])
    return bytes(builder.build())


def built(batch: RecordBatch) -> bytes:
    return bytes(batch.of_producer(*PRODUCER))


def row_headers_of(rows: Sequence[Sequence[tuple[str, Value]]]) -> RowHeaders:
    items = [item for headers in rows for item in headers]
    counts = np.array([len(headers) for headers in rows], np.int64)
    names, values = field_of([name.encode() for name, _ in items]), field_of([value for _, value in items])
    return RowHeaders(np.cumsum(counts) - counts, counts, names, values)


def random_headers(rng: np.random.Generator, rows: int) -> list[list[tuple[str, Value]]]:
    """Returns headers with empty names and repeated ones; some rows have hundreds."""
    names = ["source", "höhe", "", "x" * 200]
    counts = np.where(rng.random(rows) < 0.01, rng.integers(60, 300, rows), rng.integers(0, 4, rows)).tolist()
    return [
        [(names[int(rng.integers(4))], value) for value in random_values(rng, count, int(rng.choice([1, 9, 300])))]
        for count in counts
    ]


def random_values(rng: np.random.Generator, count: int, most: int) -> list[Value]:
    lengths = rng.integers(-1, most, count)
    return [None if length < 0 else rng.bytes(int(length)) for length in lengths]


@pytest.mark.parametrize("turn", range(40))
def test_a_batch_is_byte_for_byte_what_the_builder_makes(turn: int) -> None:
    rng = np.random.default_rng([SEED, turn])
    count = int(rng.integers(1, 300)) if turn % 8 else 9_000
    times = (1_795_000_000_000 + rng.integers(-(1 << 40) if turn % 3 == 0 else -5, 1 << (turn % 45), count)).tolist()
    columns = [random_values(rng, count, int(rng.choice([1, 9, 64, 70, 200]))) for _ in range(4)]
    headers = dict(list({"source": columns[2], "höhe": columns[3]}.items())[: turn % 3])
    asked = (times, columns[0], columns[1])
    (batch,) = encode(records_of(*asked, **headers), 1 << 30)
    assert built(batch) == by_builder(*asked, **headers), f"seed {SEED}, turn {turn}"


@pytest.mark.parametrize("turn", range(24))
def test_headers_of_each_row_are_byte_for_byte_what_the_builder_makes(turn: int) -> None:
    rng = np.random.default_rng([SEED, turn])
    count = int(rng.integers(1, 400)) if turn % 8 else 9_000
    keys, values, fixed = (random_values(rng, count, 70) for _ in range(3))
    own = random_headers(rng, count)
    columns = [("ns", field_of(fixed))] if turn % 2 else []
    times, plain = np.full(count, 7, np.int64), (field_of(keys), field_of(values))
    (batch,) = encode(Records(times, *plain, columns, row_headers_of(own)), 1 << 30)
    builder = DefaultRecordBatchBuilder(2, 0, 1, *PRODUCER, batch_size=1 << 30)
    for row in range(count):
        headers = [*own[row], *([("ns", fixed[row])] if columns else [])]
        builder.append(row, 7, keys[row], values[row], headers)
    assert built(batch) == bytes(builder.build()), f"seed {SEED}, turn {turn}"


def test_headers_of_each_row_count_where_records_are_cut() -> None:
    none, headers = [None] * 300, [[("h", b"x" * 9_000)]] * 300
    batches = encode(Records(np.zeros(300, np.int64), field_of(none), field_of(none), (), row_headers_of(headers)))
    assert max(batch.size() for batch in batches) <= BATCH_BYTES
    read = [record for batch in batches for record in DefaultRecordBatch(built(batch))]
    assert [record.headers for record in read] == headers


def test_records_are_cut_into_batches_that_a_broker_takes_and_lose_nothing() -> None:
    rng = np.random.default_rng(SEED)
    keys, values = random_values(rng, 5_000, 40), random_values(rng, 5_000, 2_000)
    batches = encode(records_of([1] * 5_000, keys, values))
    assert len(batches) > 4
    assert max(batch.size() for batch in batches) <= BATCH_BYTES
    read = [record for batch in batches for record in DefaultRecordBatch(built(batch))]
    assert [(record.key, record.value) for record in read] == list(zip(keys, values, strict=True))
    assert sum(batch.record_count() for batch in batches) == 5_000


def test_a_record_that_no_batch_takes_is_refused_by_its_row() -> None:
    with pytest.raises(RecordTooLarge, match="row 1 takes") as refused:
        encode(records_of([1, 1], [None, None], [b"a", b"x" * BATCH_BYTES]))
    assert refused.value.row == 1


def test_no_records_make_no_batch() -> None:
    assert encode(records_of([], [], [])) == []


def test_a_sequence_continues_from_0_after_the_last() -> None:
    (batch,) = encode(records_of([1], [b"k"], [b"v"]))
    assert DefaultRecordBatch(bytes(batch.of_producer(1, 0, (1 << 31) + 4))).base_sequence == 4


def test_a_batch_sent_twice_is_the_same() -> None:
    (batch,) = encode(records_of([1, 2], [b"k", None], [b"v", b""]))
    assert built(batch) == built(batch)
    assert DefaultRecordBatch(built(batch)).validate_crc()


def test_no_loop_is_compiled_for_what_comes_after_the_start() -> None:
    record_batch.warm_up()
    loops = (
        record_batch._write_field,
        record_batch._write_beginnings,
        record_batch._put,
        record_batch._write_row_headers,
    )
    before = [len(loop.signatures) for loop in loops]
    encode(records_of([1, 2], [None, b"key"], [b"", b"value"], source=[b"a", None]))
    written = Field(np.full(3, 65, np.uint8), np.zeros(4, np.int64)[::2], np.ones(2, np.int64))
    headers = RowHeaders(np.zeros(4, np.int64)[::2], np.ones(4, np.int64)[::2], written, field_of([b"a", None]))
    encode(Records(np.zeros(2, np.int64), written, written, (), headers))
    assert [len(loop.signatures) for loop in loops] == before
