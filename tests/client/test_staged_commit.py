"""What the driver's commit tells the gateway about the batch's input."""

import json
from pathlib import Path

import pytest

from oncegate_spark.checkpoint import read_input
from oncegate_spark.errors import BrokenMessages
from oncegate_spark.names import Name
from oncegate_spark.options import Options
from oncegate_spark.writers.common import Kept
from oncegate_spark.writers.staged import Staged, StagedWay
from tests.support.stub_gateway import Answer, StubGateway

COMMITTED = {"outcome": "COMMITTED", "rows": 1, "first_offset": 0, "suppressed_rows": 0, "takeover_rows": 0}


def way_and_message(url: str, checkpoint: Path, batch: int) -> tuple[StagedWay, Staged]:
    """As Spark makes them when `batch` begins: its offset-log entry is the newest."""
    options = Options.read({"url": url, "path": "topic", "checkpointlocation": str(checkpoint)})
    read = read_input(options.checkpoint)
    name = Name("query", str(batch), "topic")
    message = Staged(
        name=name,
        batch=str(batch),
        by_query=True,
        run="run",
        token="a" * 32,
        chunks=1,
        rows=1,
        fingerprint=7,
        read=read,
        kept=Kept(str(checkpoint), None),
    )
    return StagedWay(options, read), message


def test_a_zombie_commits_with_the_input_it_began_with(tmp_path: Path) -> None:
    """Its successor has meanwhile written another entry under the same number: reading that would drop its rows."""
    offsets = tmp_path / "offsets"
    offsets.mkdir()
    (offsets / "0").write_text("the zombie's input")
    with StubGateway(otherwise=lambda asked: Answer(body=json.dumps(COMMITTED).encode())) as stub:
        way, message = way_and_message(stub.url, tmp_path, 0)
        mine = read_input(str(tmp_path))
        (offsets / "0").write_text("the successor's input")
        way.commit([message], 0)
        assert mine is not None
        assert json.loads(stub.asked[-1].body)["digest"] == mine.digest


def test_a_batch_that_began_under_another_number_is_not_committed(tmp_path: Path) -> None:
    offsets = tmp_path / "offsets"
    offsets.mkdir()
    (offsets / "3").write_text("another driver is further")
    with StubGateway() as stub:
        way, message = way_and_message(stub.url, tmp_path, 2)
        with pytest.raises(BrokenMessages, match="another driver"):
            way.commit([message], 2)
        assert not stub.asked
