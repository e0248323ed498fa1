"""A Spark job whose gateway grants ids unchecked while the ledger is down."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest

from oncegate_spark import Gateway
from oncegate_spark.delivery import FunctionSink, Record
from oncegate_spark.sinks import Deliver
from oncegate_spark.spark.options import Options
from oncegate_spark.spark.writers.claim_loop import ClaimProgress
from oncegate_spark.spark.writers.settler import AskingSettler
from oncegate_spark.sync.attempt import Attempt
from tests.support.spark_writes import Write
from tests.support.stub_gateway import Answer, StubGateway
from tests.support.verdicts import GRANTED, packed

UNCHECKED = 0x80 | GRANTED


@pytest.fixture
def stub() -> Iterator[StubGateway]:
    """Grants each id, one at a time, unchecked."""
    with StubGateway(otherwise=lambda asked: Answer(body=packed([UNCHECKED], lease_ms=30_000))) as stub:
        yield stub


def test_unchecked_rows_are_written_and_counted_separately_and_the_driver_warns(
    stub: StubGateway, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = {"sink": "oncegate_spark.spark.sinks:files", "sinkPath": str(tmp_path)}
    with Gateway(stub.url) as gateway:
        write = Write(gateway, None, write="claim", idCol="id", **files)
        report = write.task(1, 2)
        write.writer.commit([report, report], 7)
    assert (report.written, report.unchecked, report.takeovers, report.suppressed) == (2, 2, 0, 0)
    assert "batch 7: 4 ids granted unchecked" in caplog.text
    assert {asked.path.rpartition("/")[2] for asked in stub.asked} == {"ids:claim"}, "there is nothing to complete"


def test_a_sink_that_can_be_asked_is_asked_about_unchecked_rows(stub: StubGateway) -> None:
    there, written = {"a"}, []

    def write(records: Sequence[Record]) -> None:
        written.extend(record.id for record in records)

    sink = FunctionSink(write, lambda ids: there & set(ids), records_max=1)
    options = Options.read({"url": stub.url, "write": "claim", "idCol": "id", "sink": "any:where"})
    with (
        Gateway(stub.url) as gateway,
        closing(
            AskingSettler(Attempt(gateway), Deliver(lambda context: sink, "value"), sink, options, ClaimProgress())
        ) as one,
    ):
        one.settle(pa.RecordBatch.from_pydict({"id": ["a", "b"], "value": ["1", "2"]}))
    assert written == ["b"]
    assert (one.progress.written, one.progress.suppressed, one.progress.unchecked) == (1, 1, 2)
