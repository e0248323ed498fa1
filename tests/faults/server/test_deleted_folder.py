"""A data folder that is removed under a running gateway: one answer from then on, and it says what is true."""

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from oncegate_spark import Gateway, OncegateError
from oncegate_spark.errors import Outcome
from tests.support.gateway_process import GatewayProcess


def refusal(ask) -> OncegateError:
    with pytest.raises(OncegateError) as raised:
        ask()
    return raised.value


@pytest.mark.server
def test_a_removed_data_folder_is_told_by_one_code_that_says_nothing_was_written(tmp_path: Path) -> None:
    rows = pa.table({"value": ["a"]})
    with GatewayProcess(tmp_path) as process, Gateway(process.url, timeout_ms=2_000) as gateway:
        with gateway.attempt() as attempt:
            attempt.produce("topic", rows)
        shutil.rmtree(process.data)

        def claim() -> None:
            with gateway.attempt() as attempt:
                attempt.claim(["x"])

        def produce() -> None:
            with gateway.attempt() as attempt:
                attempt.produce("topic", rows)

        def create() -> None:
            with Gateway(process.url, "other", timeout_ms=2_000) as other:
                other.create_namespace()

        asked = (lambda: gateway.read("topic"), claim, claim, produce, lambda: gateway.read("topic"), create)
        for number, ask in enumerate(asked):
            error = refusal(ask)
            assert (error.code, error.outcome) == ("LEDGER_FENCED", Outcome.NOT_WRITTEN), f"{number}: {error}"
            assert str(error).lower().count("nothing was written") == 1, str(error)
            assert "moved, removed or replaced" in str(error)
        assert process.stop() == 0
