"""Headers that say who wrote a record: their bytes are those of the golden file, whatever the number of rows."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from aiokafka.record.default_records import DefaultRecordBatch

from oncegate.ledgers.kafka.record_batch import encode
from oncegate.ledgers.kafka.rows.contract import columns_of
from oncegate.ledgers.kafka.rows.marks import Origin, marks_of
from oncegate.ledgers.kafka.rows.shares import shares

GOLDEN = json.loads((Path(__file__).parents[2] / "golden/kafka/record_headers.json").read_text())


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda golden: golden["namespace"])
def test_headers_have_the_bytes_of_the_golden_file(golden: dict[str, object]) -> None:
    digest = golden["digest"]
    digests = None if digest is None else np.frombuffer(bytes.fromhex(str(digest)), np.uint8).reshape(1, -1)
    origin = Origin(
        str(golden["namespace"]),
        str(golden["producer"]),
        int(str(golden["epoch"])),
        np.array([golden["sequence"]], np.int64),
        digests,
    )
    found = [
        [name, field.data[field.starts[0] :][: field.lengths[0]].tobytes().hex()] for name, field in marks_of(origin)
    ]
    assert found == golden["headers"]


def test_each_row_keeps_its_own_sequence_and_digest_behind_its_own_headers_wherever_it_goes() -> None:
    rows = 300
    headers = pa.array(
        [[("own", str(row).encode())] * (row % 2) for row in range(rows)],
        pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
    )
    table = pa.table(
        {"value": [str(row) for row in range(rows)], "key": [str(row % 11) for row in range(rows)], "headers": headers}
    )
    digests = np.arange(rows, dtype="<u4").view(np.uint8).reshape(rows, 4)
    marks = marks_of(Origin("flights", "p", 3, np.arange(rows) + 1_000, digests))
    found = shares(columns_of(table.schema, table.to_batches(), "t", 0), {"t": 4}, 0, marks)
    assert len(found) == 4
    for share in found:
        (batch,) = encode(share.records)
        batch._set_producer_state(1, 0, 0)
        for record in DefaultRecordBatch(bytes(batch._build())):
            row = int(record.value)
            assert record.headers == [
                *([("own", record.value)] * (row % 2)),
                ("oncegate-ns", b"flights"),
                ("oncegate-producer", b"p"),
                ("oncegate-epoch", (3).to_bytes(8, "big")),
                ("oncegate-seq", (row + 1_000).to_bytes(8, "big")),
                ("oncegate-digest", row.to_bytes(4, "little")),
            ]
