"""A gateway that dies and returns on the same folder during an attempt's work."""

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest

from oncegate_spark import Gateway
from oncegate_spark.spark.writers.claim_loop import Settler
from oncegate_spark.sync.attempt import Attempt
from tests.support.gateway_process import GatewayProcess

pytestmark = pytest.mark.server


@pytest.fixture
def process(tmp_path: Path) -> Iterator[GatewayProcess]:
    with GatewayProcess(tmp_path) as process:
        yield process


def test_a_gateway_killed_between_claim_and_complete_is_reported_when_it_is_back(process: GatewayProcess) -> None:
    """Nothing is granted twice: the claim is in the ledger, and its lease restarts."""
    written: list[str] = []

    def write(rows: pa.RecordBatch) -> None:
        written.extend(rows.column("id").to_pylist())
        if len(written) == 4:
            process.kill()
            process.start()

    with Gateway(process.url) as gateway:
        settler = Settler(Attempt(gateway), ["id"], write, lease_ms=30_000)
        with closing(settler):
            for ids in (["a", "b"], ["b", "c", "d"], ["a", "e"]):
                settler.settle(pa.RecordBatch.from_pydict({"id": ids}))
        assert Counter(written) == Counter("abcde")
        counters = gateway.describe()["counters"]
        assert counters["takeovers"] == 0
        assert counters["open_claims"] == 0
        with gateway.attempt() as late:
            assert late.claim(list("abcde")).dropped == list("abcde")


def test_a_gateway_that_is_away_for_a_while_costs_time_and_nothing_else(process: GatewayProcess) -> None:
    with Gateway(process.url) as gateway, gateway.attempt() as attempt:
        assert attempt.produce("t", pa.table({"n": [1]})).rows == 1
        process.kill()
        process.start()
        claimed = attempt.claim(["a"])
        attempt.complete(claimed)
        assert attempt.produce("t", pa.table({"n": [2]})).rows == 1
        table = gateway.read("t")
    assert table is not None
    assert table.column("n").to_pylist() == [1, 2]
