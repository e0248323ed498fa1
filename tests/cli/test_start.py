"""What a start does without."""

import importlib.util
from pathlib import Path

import pytest

from tests.support.gateway_process import GatewayProcess


@pytest.mark.server
@pytest.mark.skipif(importlib.util.find_spec("pandas") is None, reason="pandas is not installed: nothing to leave out")
def test_a_gateway_starts_without_pandas_where_that_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")
    with GatewayProcess(tmp_path) as gateway:
        imported = gateway.log
    assert "pyarrow.lib" in imported
    assert "pandas.core" not in imported
