"""What write=direct reads of a file, and what it makes of rows, without Spark."""

from pathlib import Path

import pyarrow as pa
import pytest

from oncegate_spark.direct import DirectRow
from oncegate_spark.errors import BadOption
from oncegate_spark.spark.writers.direct.lanes import config_of, rows_of


def test_settings_of_kafkas_client_are_read_line_by_line(tmp_path: Path) -> None:
    (path := tmp_path / "kafka.properties").write_text(
        "# as whom\n\n security.protocol = SASL_SSL\nsasl.password=a=b\n"
    )
    assert config_of(str(path)) == {"security.protocol": "SASL_SSL", "sasl.password": "a=b"}
    assert config_of(None) == {}


@pytest.mark.parametrize(("text", "told"), [("x\n", "line 1: no name=value"), ("=x\n", "line 1"), (None, "cannot be")])
def test_a_file_that_is_none_is_refused_by_its_line(tmp_path: Path, text: str | None, told: str) -> None:
    path = tmp_path / "kafka.properties"
    if text is not None:
        path.write_text(text)
    with pytest.raises(BadOption, match=told):
        config_of(str(path))


def test_rows_become_records_of_kafka_as_by_sparks_sink() -> None:
    rows = pa.RecordBatch.from_pydict(
        {
            "value": pa.array(["é", None]),
            "key": pa.array([b"k", None]),
            "headers": pa.array(
                [[{"key": "h", "value": b"1"}], None],
                pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])),
            ),
            "partition": pa.array([None, 2], pa.int32()),
            "timestamp": pa.array([1_700_000_000_123_456, None], pa.timestamp("us", "UTC")),
            "source": pa.array(["p", "p"]),
        }
    )
    assert rows_of(rows, pa.array([7, 8], pa.uint64())) == [
        DirectRow(7, "é".encode(), b"k", (("h", b"1"),), None, 1_700_000_000_123),
        DirectRow(8, None, None, (), 2, None),
    ]


def test_columns_that_are_not_there_are_left_to_kafka() -> None:
    rows = pa.RecordBatch.from_pydict({"value": pa.array([b"v"])})
    assert rows_of(rows, pa.array([0], pa.uint64())) == [DirectRow(0, b"v")]
