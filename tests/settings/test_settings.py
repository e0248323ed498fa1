"""Settings: flags over environment over file over default; wrong ones are named in one line."""

import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import click
import pytest
from pydantic import ValidationError
from typer.main import get_command

from oncegate.cli import app
from oncegate.core.errors import SettingsError
from oncegate.engine.limits import Limits
from oncegate.index.lsm import bloom_pybloom
from oncegate.settings import ProcessSettings, SemanticSettings, load, names
from oncegate.variables import CLIENTS, PREFIX
from oncegate.verifier.address import API_KEY
from oncegate.verifier.sources.registry import REGISTRY_AUTH


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
        ("prot = 1", "there is no setting prot; the nearest is port"),
        ("xyzzy = 1", "there is no setting xyzzy; `oncegate config` lists them"),
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


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        (
            "ONCEGATE_HOT_ID",
            "5",
            "the environment: there is no setting ONCEGATE_HOT_ID; the nearest is ONCEGATE_HOT_IDS",
        ),
        ("oncegate_tls_certifcate", "x.pem", "the nearest is ONCEGATE_TLS_CERTIFICATE"),
        ("ONCEGATE_XYZZY", "", "there is no setting ONCEGATE_XYZZY; `oncegate config` lists them, or unset it"),
        ("ONCEGATE_API_KYE", "og_secret", "there is no setting ONCEGATE_API_KYE"),
        ("ONCEGATE_GRCP_PORT", "50051", "the nearest is ONCEGATE_GRPC_PORT"),
        ("ONCEGATE_PORT", "tcp://10.0.0.11:8080", "say enableServiceLinks: false in the pod"),
        ("ONCEGATE_GRPC_PORT", "tcp://10.0.0.11:9090", "no value of the setting grpc_port"),
    ],
)
def test_a_variable_that_is_no_setting_is_refused_by_its_name(
    variable: str, value: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A misspelt variable would otherwise be ignored, and with it a certificate, or a file of keys."""
    monkeypatch.setenv(variable, value)
    with pytest.raises(SettingsError, match=re.escape(said)) as caught:
        load()
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)


# The variables that the kubelet sets for Services named oncegate and oncegate-standby, except those in ONCEGATE_PORT.
LINKS = {
    "ONCEGATE_SERVICE_HOST": "10.0.0.11",
    "ONCEGATE_SERVICE_PORT": "8080",
    "ONCEGATE_SERVICE_PORT_HTTP": "8080",
    "ONCEGATE_PORT_8080_TCP": "tcp://10.0.0.11:8080",
    "ONCEGATE_PORT_8080_TCP_PROTO": "tcp",
    "ONCEGATE_PORT_8080_TCP_PORT": "8080",
    "ONCEGATE_PORT_8080_TCP_ADDR": "10.0.0.11",
    "ONCEGATE_STANDBY_SERVICE_HOST": "10.0.0.12",
    "ONCEGATE_STANDBY_PORT": "tcp://10.0.0.12:8080",
    "ONCEGATE_STANDBY_PORT_8080_TCP": "tcp://10.0.0.12:8080",
}


def test_what_kubernetes_and_clients_put_into_the_environment_is_no_misspelt_setting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in {**LINKS, **dict.fromkeys(CLIENTS, "x"), "ONCEGATE_PORT": "tcp://10.0.0.11:8080"}.items():
        monkeypatch.setenv(name, value)
    assert load(port=21).process.port == 21, "a flag wins over a service link too"
    assert not {name for name in LINKS if name.removeprefix(PREFIX).lower() in names()}, "no setting is hidden by them"


def test_every_variable_that_a_verb_reads_is_known_as_one_of_clients() -> None:
    read = {
        variable
        for verb in commands_of(get_command(app))
        for option in verb.params
        for variable in [option.envvar]
        if isinstance(option.envvar, str)
    }
    assert read | {API_KEY, REGISTRY_AUTH} == CLIENTS


def commands_of(command: click.Command) -> Iterator[click.Command]:
    yield command
    for one in getattr(command, "commands", {}).values():
        yield from commands_of(one)


def test_both_halves_are_frozen() -> None:
    settings = load()
    with pytest.raises(ValidationError):
        settings.process.port = 5
    with pytest.raises(ValidationError):
        settings.semantic.lease_ms = 5


def test_a_filter_whose_library_is_missing_is_reported_before_anything_is_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
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
