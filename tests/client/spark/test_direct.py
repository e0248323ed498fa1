"""The file options of write=direct, and its records from rows, without Spark."""

from pathlib import Path

import pyarrow as pa
import pytest

from oncegate_spark.direct import DirectRow
from oncegate_spark.direct.transaction import transaction_time
from oncegate_spark.errors import BadOption
from oncegate_spark.spark.options import Options
from oncegate_spark.spark.writers.direct.lanes import config_of, rows_of, times_of

DIRECT = {
    "url": "http://127.0.0.1:1",
    "topic": "t",
    "write": "direct",
    "producerCol": "oncegate_producer",
    "sequenceCol": "oncegate_sequence",
}


def test_settings_of_kafkas_client_are_read_line_by_line(tmp_path: Path) -> None:
    (path := tmp_path / "kafka.properties").write_text(
        "# as whom\n\n security.protocol = SASL_SSL\nsasl.password=a=b\n"
    )
    assert config_of(str(path)) == {"security.protocol": "SASL_SSL", "sasl.password": "a=b"}
    assert config_of(None) == {}


@pytest.mark.parametrize(
    ("text", "told"), [("x\n", "line 1: not of the form"), ("=x\n", "line 1"), (None, "cannot be")]
)
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


@pytest.mark.parametrize(
    ("options", "config", "transaction_ms", "timeout_ms"),
    [
        ({}, {}, 60_000, 30_000),
        ({"timeoutMs": "60000"}, {}, 60_000, 30_000),
        ({"timeoutMs": "60001"}, {}, 60_001, 30_000),
        ({}, {"message.timeout.ms": "60001"}, 60_001, 30_000),
        ({"timeoutMs": "70000"}, {"delivery.timeout.ms": "90000"}, 90_000, 30_000),
        ({"transactionMs": "10000"}, {}, 10_000, 10_000),
        ({"transactionMs": "70000", "timeoutMs": "70000"}, {}, 70_000, 30_000),
    ],
)
def test_a_transaction_is_open_for_a_minute_and_never_shorter_than_its_commit_may_take(
    options: dict[str, str], config: dict[str, str], transaction_ms: int, timeout_ms: int
) -> None:
    times = times_of(Options.read({**DIRECT, **options}), config)
    assert times == {"timeout_ms": timeout_ms, "transaction_ms": transaction_ms}


def test_a_transaction_shorter_than_its_commit_is_refused_with_the_line_to_write() -> None:
    line = r'write \.option\("transactionMs", "70000"\)'
    with pytest.raises(BadOption, match=line):
        Options.read({**DIRECT, "transactionMs": "69999", "timeoutMs": "70000"})
    with pytest.raises(BadOption, match=line):
        times_of(Options.read({**DIRECT, "transactionMs": "69999"}), {"message.timeout.ms": "70000"})
    with pytest.raises(BadOption, match=r"transaction_ms=30000"):
        transaction_time(29_999, 30_000, {})
    with pytest.raises(BadOption, match=r"message\.timeout\.ms is 'soon'"):
        times_of(Options.read(DIRECT), {"message.timeout.ms": "soon"})
