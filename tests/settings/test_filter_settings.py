"""An impossible filter is refused before anything is opened, not when the first ids leave memory."""

from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from oncegate.core.errors import SettingsError
from oncegate.index.lsm import bloom_pybloom
from oncegate.settings import load


@pytest.mark.parametrize("fpr", ["0.0", "1.0", "-0.1", "nan"])
def test_a_rate_of_false_positives_that_is_none_is_refused(fpr: str, tmp_path: Path) -> None:
    file = tmp_path / "oncegate.toml"
    file.write_text(f"cold_fpr = {fpr}\n")
    with pytest.raises(SettingsError, match="0 < cold_fpr < 1 must hold"):
        load(file)


def test_pybloom_without_its_library_is_refused_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONCEGATE_COLD_FILTER", "pybloom")
    assert load().limits.cold_filter == "pybloom"

    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(bloom_pybloom, "version", missing)
    with pytest.raises(SettingsError, match=r"pip install 'oncegate\[pybloom\]', or use blocked"):
        load()
    monkeypatch.delenv("ONCEGATE_COLD_FILTER")
    assert load().limits.cold_filter == "blocked"
