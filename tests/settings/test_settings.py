"""Settings: flags over environment over file over default; wrong ones are named in one line."""

import re
from dataclasses import fields
from pathlib import Path

import pytest
from pydantic import ValidationError

from oncegate.engine.limits import Limits
from oncegate.index.lsm import bloom_pybloom
from oncegate.settings import ProcessSettings, SemanticSettings, SettingsError, load


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in SemanticSettings.model_fields.keys() | ProcessSettings.model_fields.keys():
        monkeypatch.delenv(f"ONCEGATE_{name.upper()}", raising=False)
    return tmp_path


def test_without_anything_the_limits_are_the_defaults() -> None:
    settings = load()
    assert settings.limits == Limits()
    assert (settings.process.host, settings.process.port, settings.process.ledger) == ("127.0.0.1", 8080, "log:./data")


def test_flags_win_over_the_environment_and_that_over_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "oncegate.toml").write_text("port = 1\nlease_ms = 2000\nbody_bytes = 3\n")
    monkeypatch.setenv("ONCEGATE_PORT", "11")
    monkeypatch.setenv("ONCEGATE_LEASE_MS", "12000")
    settings = load(port=21)
    assert settings.process.port == 21
    assert settings.limits.lease_ms == 12_000
    assert settings.limits.body_bytes == 3
    assert load(port=None).process.port == 11, "a flag that was not given is no flag"


def test_another_file_can_be_named_and_must_be_there(tmp_path: Path) -> None:
    other = tmp_path / "other.toml"
    with pytest.raises(SettingsError, match="no settings file"):
        load(other)
    other.write_text("port = 5\n")
    assert load(other).process.port == 5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("prot = 1", "no setting prot"),
        ("port = ", "oncegate.toml"),
        ("port = 'x'", "port: "),
        ("lease_ms = 0", "lease_ms_min <= lease_ms"),
        ("lease_ms_max = 1500", "lease_ms_min <= lease_ms"),
        ("cold_fpr = 1", "0 < cold_fpr < 1"),
        ("hot_ids = -1", "hot_ids is 0 at least"),
        ("run_ids = 0", "run_ids are 1"),
        ("cold_filter = 'cuckoo'", "cold_filter: "),
    ],
)
def test_a_setting_that_cannot_be_is_named_in_one_line(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "oncegate.toml").write_text(text)
    with pytest.raises(SettingsError, match=message) as caught:
        load()
    assert "\n" not in str(caught.value)
    assert not re.search("^settings|error,", str(caught.value)), "said in our words"


def test_both_halves_are_frozen() -> None:
    settings = load()
    with pytest.raises(ValidationError):
        settings.process.port = 5
    with pytest.raises(ValidationError):
        settings.semantic.lease_ms = 5


def test_a_filter_whose_library_is_not_there_is_told_before_anything_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bloom_pybloom, "_libraries", lambda: None)
    with pytest.raises(SettingsError, match=r"pip install 'oncegate\[pybloom\]'"):
        load(cold_filter="pybloom")


def test_every_limit_is_a_setting_of_just_one_half_with_its_own_default() -> None:
    names = [field.name for field in fields(Limits)]
    semantic, process = SemanticSettings.model_fields, ProcessSettings.model_fields
    assert not semantic.keys() & process.keys()
    for name in names:
        assert (name in semantic) != (name in process), name
        found = semantic.get(name) or process[name]
        assert found.default == getattr(Limits(), name)
    assert set(semantic) <= set(names), "what all must agree on are limits"


def test_the_fingerprint_changes_with_what_a_duplicate_is_and_with_nothing_else() -> None:
    first = load().semantic.fingerprint()
    assert load(port=1, body_bytes=5).semantic.fingerprint() == first
    assert load(lease_ms=29_000).semantic.fingerprint() != first
    assert len(first) == 16
