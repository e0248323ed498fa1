"""The bytes on the wire, compared with the service's own codecs."""

import re
import struct

import pyarrow as pa
import pytest

from oncegate.core.verdicts import VERDICTS
from oncegate_spark.errors import BadId, Refused
from oncegate_spark.protocol import codecs
from oncegate_spark.protocol._generated_verdicts import BY_BYTE
from oncegate_spark.protocol.ids import check_ids, checked_columns, id_columns
from oncegate_spark.protocol.packed import Verdicts, claim_text

CLAIM = bytes(range(16))


def packed(verdicts: list[int], numbers: list[tuple[int, int]], claim: bytes = CLAIM) -> bytes:
    head = struct.pack("<16sII", claim, 30_000, len(verdicts))
    return head + bytes(verdicts) + b"".join(struct.pack("<II", *pair) for pair in numbers)


def test_the_clients_table_is_the_services() -> None:
    of_service = {
        int(row.verdict) | int(row.flags): (
            row.verdict.name,
            "TAKEOVER" in (row.flags.name or ""),
            "OWN" in (row.flags.name or ""),
            row.number,
            "UNCHECKED" in (row.flags.name or ""),
            row.may_write,
        )
        for row in VERDICTS
    }
    assert of_service == BY_BYTE


def test_an_answer_is_read_into_masks_and_counts() -> None:
    body = packed([1, 17, 2, 34, 3, 67, 4, 4], [(4, 0), (5, 9), (6, 700), (7, 2_500)])
    verdicts = Verdicts.read(body, 8)
    assert verdicts.may_write.to_pylist() == [True, True] + [False] * 6
    assert verdicts.open.to_pylist() == [False] * 5 + [True] * 3
    assert (verdicts.granted, verdicts.takeovers, verdicts.suppressed, verdicts.unsettled) == (2, 1, 2, 3)
    assert verdicts.lease_left_ms == 2_500
    assert verdicts.lease_ms == 30_000
    assert verdicts.claim == claim_text(CLAIM)


def test_unchecked_ids_are_granted_and_marked_as_unchecked() -> None:
    verdicts = Verdicts.read(packed([0x81, 1, 0x11, 0x81], [], bytes(16)), 4)
    assert verdicts.may_write.to_pylist() == [True] * 4
    assert verdicts.unchecked.to_pylist() == [True, False, False, True]
    assert verdicts.in_doubt.to_pylist() == [False, False, True, False]
    assert (verdicts.unchecked_count, verdicts.granted, verdicts.claim) == (2, 4, None)


def test_no_id_needs_an_answer_of_its_own() -> None:
    verdicts = Verdicts.read(packed([2, 2], [], bytes(16)), 2)
    assert verdicts.claim is None
    assert verdicts.lease_left_ms == 0


def test_every_verdict_is_either_written_settled_or_asked_for_again() -> None:
    """Except answers of look-ups: FREE is no answer to a claim, and does not permit a write."""
    for byte, (name, _, _, number, _, may_write) in BY_BYTE.items():
        verdicts = Verdicts.read(packed([byte], [(0, 1)] if number else []), 1)
        own, looked_up = byte == 34, name == "FREE"
        counted = verdicts.granted + verdicts.suppressed + verdicts.unsettled + verdicts.conflicts
        counted += verdicts.unresolved.true_count
        assert counted + own + looked_up == 1
        assert verdicts.granted == may_write
        dropped = verdicts.suppressed + own + looked_up
        assert verdicts.dropped.to_pylist() == [bool(dropped) or (name == "SAME" and number == "of_index")]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        packed([1, 1], []),
        packed([1], []) + b"x",
        packed([0], []),
        packed([9], []),
        packed([4], []),
        packed([1], [(0, 1)]),
    ],
    ids=["empty", "count", "tail", "never filled in", "unknown verdict", "number missing", "number too many"],
)
def test_an_answer_that_cannot_be_read_lets_nothing_be_written(body: bytes) -> None:
    with pytest.raises(Refused):
        Verdicts.read(body, 1)


def test_a_claim_is_written_as_a_ulid_is() -> None:
    assert claim_text(bytes(16)) == "0" * 26
    assert claim_text(b"\xff" * 16) == "7" + "z" * 25
    known = bytes.fromhex("01563e3ab5d3d6764c61efb99302bd5b")  # a ULID of oklog/ulid's tests
    assert claim_text(known) == "01ARZ3NDEKTSV4RRFFQ69G5FAV".lower()


def ids(**columns: pa.Array) -> list[pa.Array]:
    return checked_columns(columns)


def test_strings_and_binary_are_ids_as_they_are_and_integers_in_decimal() -> None:
    (text,) = ids(a=pa.array(["x", "ÿ"]))
    assert text.to_pylist() == ["x", "ÿ"]
    (raw,) = ids(a=pa.array([b"\0"]))
    assert raw.to_pylist() == [b"\0"]
    for kind in (pa.int8(), pa.int64(), pa.uint64()):
        (number,) = ids(a=pa.array([0, 7, 100], kind))
        assert number.to_pylist() == ["0", "7", "100"]
    (number,) = ids(a=pa.array([-5], pa.int16()))
    assert number.to_pylist() == ["-5"]


def test_whole_numbers_of_any_size_are_ids_in_decimal_and_what_is_no_unicode_is_none() -> None:
    for numbers in ([(1 << 64) - 1, 0], [1 << 200, -1]):
        (column,) = id_columns(numbers)
        assert column.to_pylist() == [str(one) for one in numbers]
    for wrong in (["\ud800"], [1 << 64, None], ["a", 1 << 64]):
        with pytest.raises(BadId):
            id_columns(wrong)


def test_decimals_dates_and_times_are_left_to_the_gateway_which_knows_their_text() -> None:
    for kind in (pa.timestamp("us"), pa.timestamp("ms", "Asia/Tokyo"), pa.date32(), pa.decimal128(21, 2)):
        column = pa.array([0], pa.int32() if pa.types.is_date32(kind) else pa.int64()).cast(kind, safe=False)
        assert ids(a=column, b=pa.array([""]))[0] is column
        with pytest.raises(BadId, match="null"):
            ids(a=pa.nulls(1, kind))


@pytest.mark.parametrize("kind", [pa.float64(), pa.bool_(), pa.duration("us"), pa.list_(pa.string())])
def test_other_types_are_refused_with_the_types_to_cast_to(kind: pa.DataType) -> None:
    with pytest.raises(BadId, match=rf"column seen is of type {re.escape(str(kind))}; ids are strings.*cast it"):
        ids(seen=pa.nulls(1, kind))


def test_a_null_id_is_refused_with_column_count_and_first_row() -> None:
    with pytest.raises(BadId, match=r"column key: 2 of 4 rows .* null, the first is row 1;.*leave them out"):
        ids(key=pa.array(["a", None, "b", None]))


def test_an_empty_id_is_refused_and_an_empty_part_of_an_id_is_not() -> None:
    with pytest.raises(BadId, match=r"column key: 1 of 2 rows .* empty, the first is row 0"):
        ids(key=pa.array(["", "b"]))
    assert len(ids(first=pa.array(["", "a"]), second=pa.array(["x", ""]))) == 2
    with pytest.raises(BadId, match="first, second: 1 of 1"):
        ids(first=pa.array([""]), second=pa.array([""]))


def rows(count: int, width: int = 10) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"n": list(range(count)), "t": ["x" * width] * count})


def read(body: bytes) -> pa.Table:
    return pa.ipc.open_stream(body).read_all()


def test_small_batches_are_put_together_and_keep_their_order() -> None:
    made = list(codecs.chunks(rows(10).slice(n, 1) for n in range(10)))
    assert [count for _, count in made] == [10]
    assert read(made[0][0]).column("n").to_pylist() == list(range(10))


def test_large_batches_are_cut_until_they_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codecs, "BODY_BYTES_MAX", 20_000)
    made = list(codecs.chunks([rows(1_000, 100)]))
    assert len(made) > 5
    assert all(len(body) <= 20_000 for body, _ in made)
    assert [n for body, _ in made for n in read(body).column("n").to_pylist()] == list(range(1_000))


def test_many_small_rows_are_cut_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codecs, "ROWS_MAX", 300)
    made = list(codecs.chunks([rows(1_000)]))
    assert [count for _, count in made] == [250] * 4


def test_a_row_that_cannot_be_cut_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codecs, "BODY_BYTES_MAX", 1_000)
    message = r"^one row takes \d+ bytes.*1 MiB a record and 32 MiB.*GET /v1/limits.*; nothing was written$"
    with pytest.raises(Refused, match=message):
        list(codecs.chunks([rows(3, 2_000)]))


def test_empty_batches_make_no_chunk() -> None:
    assert list(codecs.chunks([rows(0), rows(0)])) == []


def test_inferred_nullability_does_not_change_the_schema() -> None:
    strict = pa.schema([pa.field("n", pa.int64(), nullable=False)])
    (body, _), *_ = codecs.chunks([pa.RecordBatch.from_pydict({"n": [1]}, schema=strict)])
    assert read(body).schema.field("n").nullable


def test_the_digest_is_written_as_rfc_9530_has_it() -> None:
    # The example of RFC 9530, appendix D.
    assert codecs.content_digest(b'{"hello": "world"}\n') == "sha-256=:RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg=:"


@pytest.mark.parametrize("columns", [["text"], ["text", "named"], ["empty"]])
def test_a_stream_of_any_columns_is_what_arrow_writes(columns: list[str]) -> None:
    table = pa.table({"text": ["a", None, "é" * 9], "named": pa.array(["x", "y", "x"]).dictionary_encode()})
    batches = table.append_column("empty", pa.nulls(3)).select(columns).to_batches(max_chunksize=2)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    assert codecs.stream(batches) == sink.getvalue().to_pybytes()


def test_whole_numbers_are_looked_at_as_ids_without_their_texts() -> None:
    numbers, texts = pa.array([1, 2]), pa.array(["", "b"])
    check_ids({"n": numbers})
    check_ids({"n": numbers, "text": texts})
    with pytest.raises(BadId, match="1 of 2 rows have an id that is empty"):
        check_ids({"text": texts})
    with pytest.raises(BadId, match="n: 1 of 2 rows have an id that is null"):
        check_ids({"n": pa.array([1, None]), "text": texts})
    with pytest.raises(BadId, match="double"):
        check_ids({"n": pa.array([1.5])})
