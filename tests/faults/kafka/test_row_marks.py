"""Headers that name the writer of a record: their bytes equal the golden file, whatever the number of rows."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from aiokafka.record.default_records import DefaultRecordBatch

from oncegate.core.errors import BadRequest
from oncegate.ledgers.kafka.record_batch import encode
from oncegate.ledgers.kafka.rows.contract import columns_of
from oncegate.ledgers.kafka.rows.marks import check_names, marks_of
from oncegate.ledgers.kafka.rows.partitions import shares
from oncegate.ports import Origin

GOLDEN = json.loads((Path(__file__).parents[2] / "golden/kafka/record_headers.json").read_text())


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda golden: golden["what"])
def test_headers_have_the_bytes_of_the_golden_file(golden: dict[str, object]) -> None:
    digest = golden["digest"]
    digests = None if digest is None else np.frombuffer(bytes.fromhex(str(digest)), "<u4")
    who = str(golden["namespace"]), str(golden["producer"]), int(str(golden["epoch"]))
    sequence = int(str(golden["sequence"]))
    for origin in (
        Origin(*who, sequence, digests=digests),
        Origin(*who, sequences=np.array([sequence], np.uint64), digests=digests),
    ):
        found = [
            [name, field.data[field.starts[0] :][: field.lengths[0]].tobytes().hex()]
            for name, field in marks_of(origin, 0, 1)
        ]
        assert found == golden["headers"]


def test_rows_are_numbered_on_from_piece_to_piece() -> None:
    consecutive = Origin("flights", "p", 1, first=2**63, digests=np.arange(9, dtype=np.uint32))
    given = Origin("flights", "p", 1, sequences=np.arange(9, dtype=np.uint64) * np.uint64(7))
    for origin, sequences in ((consecutive, [2**63 + 4, 2**63 + 5]), (given, [28, 35])):
        marks = dict(marks_of(origin, 4, 2))
        assert marks["oncegate-seq"].data.tobytes() == b"".join(one.to_bytes(8, "big") for one in sequences)
    digests = dict(marks_of(consecutive, 4, 2))["oncegate-digest"].data.tobytes()
    assert digests == (4).to_bytes(4, "little") + (5).to_bytes(4, "little")


@pytest.mark.parametrize("name", ["oncegate-", "oncegate-seq", "oncegate-of-mine"])
def test_a_row_that_brings_a_header_of_the_gateways_is_refused_by_its_number_and_the_name(name: str) -> None:
    rows: list[list[tuple[str, bytes]] | None] = [[], None, [("own", b""), ("", b"")], [("a", b""), (name, b"")], []]
    with pytest.raises(BadRequest, match=f"row 3 has a header '{name}'.*nothing was written"):
        check_names(own_headers(rows))


def test_headers_that_only_look_like_the_gateways_pass() -> None:
    others = [[("oncegate", b""), ("Oncegate-seq", b""), ("my-oncegate-seq", b"oncegate-seq")], None, []]
    check_names(own_headers(others))
    check_names(None)


def test_headers_of_a_null_and_of_rows_that_were_cut_off_are_nobodys() -> None:
    """Arrow may have items below a null, and outside a slice."""
    items = pa.array([("oncegate-seq", b"")] * 4 + [("own", b"")], ITEM)
    lists = pa.ListArray.from_arrays(
        pa.array([0, 1, 2, 2, 3, 5]), items, mask=pa.array([False, True, False, False, False])
    )
    column = lists.slice(1, 2)
    check_names(columns_of_headers(column).row_headers)
    with pytest.raises(BadRequest, match="row 2"):
        check_names(columns_of_headers(lists.slice(1, 3)).row_headers)


ITEM = pa.struct([("key", pa.string()), ("value", pa.binary())])


def own_headers(rows: list[Any]) -> Any:
    return columns_of_headers(pa.array(rows, pa.list_(ITEM))).row_headers


def columns_of_headers(column: Any) -> Any:
    table = pa.table({"value": ["v"] * len(column), "headers": column})
    return columns_of(table.schema, table.to_batches(), "t", 0)


def test_each_row_keeps_its_own_sequence_and_digest_after_its_own_headers_wherever_it_goes() -> None:
    rows = 300
    headers = pa.array(
        [[("own", str(row).encode())] * (row % 2) for row in range(rows)],
        pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
    )
    table = pa.table(
        {"value": [str(row) for row in range(rows)], "key": [str(row % 11) for row in range(rows)], "headers": headers}
    )
    digests = np.arange(rows, dtype=np.uint32)
    marks = marks_of(Origin("flights", "p", 3, 1_000, digests=digests), 0, rows)
    found = shares(columns_of(table.schema, table.to_batches(), "t", 0), {"t": 4}, 0, marks)
    assert len(found) == 4
    for share in found:
        (batch,) = encode(share.records)
        encoded = batch.of_producer(1, 0, 0)
        for record in DefaultRecordBatch(bytes(encoded)):
            row = int(record.value)
            assert record.headers == [
                *([("own", record.value)] * (row % 2)),
                ("oncegate-ns", b"flights"),
                ("oncegate-producer", b"p"),
                ("oncegate-epoch", (3).to_bytes(8, "big")),
                ("oncegate-seq", (row + 1_000).to_bytes(8, "big")),
                ("oncegate-digest", row.to_bytes(4, "little")),
            ]
