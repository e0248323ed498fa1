"""Precedence of the sources of every setting and flag: flag, environment, file, default."""

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import click
import pytest
from typer.main import get_command
from typer.testing import CliRunner

from oncegate.cli import app
from oncegate.cli.doctor import checks as doctor
from oncegate.settings import ProcessSettings, SemanticSettings, Settings, load, origins

FIELDS = SemanticSettings.model_fields | ProcessSettings.model_fields
SOURCES = ("flag", "environment", "file", "default")
# Settings with restrictions beyond their type.
NAMED = {"ledger": ("log:/a", "log:/b"), "jwt_algorithms": ("RS256", "ES256")}


def values(name: str) -> tuple[Any, Any]:
    """Returns two valid values of a setting, the second different from its default."""
    field = FIELDS[name]
    kind, default = field.annotation, field.default
    kind = next((one for one in get_args(kind) if one is not type(None)), kind) if default is None else kind
    if name in NAMED:
        return NAMED[name]
    if kind is bool:
        return default, not default
    if get_origin(field.annotation) is Literal:
        return default, next(one for one in get_args(field.annotation) if one != default)
    if kind in (int, float):
        step = 1 if kind is int else 0.01
        return (default or 0) + 2 * step, (default or 0) + step
    return "/a", "/b"


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in (*(f"ONCEGATE_{name.upper()}" for name in FIELDS), "ONCEGATE_URL", "ONCEGATE_CA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


def said_by(source: str, given: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Sets all these values in one source; returns the flags."""
    if source == "environment":
        for name, value in given.items():
            monkeypatch.setenv(f"ONCEGATE_{name.upper()}", str(value))
    elif source == "file":
        Path("oncegate.toml").write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in given.items()))
    return given if source == "flag" else {}


def in_force(settings: Settings) -> dict[str, Any]:
    all_of_them = settings.semantic.model_dump() | settings.process.model_dump()
    return {name: str(value) if isinstance(value, Path) else value for name, value in all_of_them.items()}


@pytest.mark.parametrize("turned", [False, True], ids=["one way", "other way"])
@pytest.mark.parametrize(("nearer", "farther"), [*pairwise(SOURCES), ("flag", "file")])
def test_every_setting_is_as_the_nearer_of_two_sources_has_it(
    nearer: str, farther: str, turned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tries both directions, so that neither the larger, the later nor a non-default value is mistaken for the nearer
    source's."""
    ours, theirs = ({name: values(name)[at] for name in FIELDS} for at in (not turned, turned))
    flags = said_by(nearer, ours, monkeypatch) | said_by(farther, theirs, monkeypatch)
    assert all(ours[name] != theirs[name] for name in FIELDS)
    settings = load(**flags)
    assert in_force(settings) == ours
    shown = {one.name: one.source for one in origins(settings, **flags)}
    expected = {"flag": "flag", "file": "oncegate.toml"}
    assert shown == {name: expected.get(nearer, f"ONCEGATE_{name.upper()}") for name in FIELDS}


def commands_of(name: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    """Yields each verb with its words."""
    for word, one in getattr(command, "commands", {}).items():
        yield from commands_of(f"{name} {word}".strip(), one)
    if not hasattr(command, "commands"):
        yield name, command


COMMANDS = dict(commands_of("", get_command(app)))
READS = [(verb, one) for verb, command in COMMANDS.items() for one in command.params if one.envvar]
FLAGS = [one for one in COMMANDS["config"].params if one.name in FIELDS]


def test_the_flags_of_serve_are_settings_but_for_two() -> None:
    assert {one.name for one in COMMANDS["serve"].params} - FIELDS.keys() == {"data", "config"}
    assert len(FLAGS) > 10
    assert {verb for verb, one in READS if one.name == "url"} >= {"forget", "log", "doctor"}


@pytest.mark.parametrize("flag", FLAGS, ids=lambda flag: flag.name)
def test_a_flag_on_the_command_line_wins_over_the_variable_and_that_over_the_file(
    flag: click.Option, monkeypatch: pytest.MonkeyPatch
) -> None:
    default, other = values(flag.name)
    far = {"file": default, "environment": other}
    if flag.is_flag:
        far = {"environment": False}
    for source, value in far.items():
        said_by(source, {flag.name: value}, monkeypatch)
    last = True if flag.is_flag else default
    words = [flag.opts[0]] if flag.is_flag else [flag.opts[0], str(last)]
    assert shown(flag.name) == (far["environment"], f"ONCEGATE_{flag.name.upper()}")
    assert shown(flag.name, *words) == (last, "flag")


def test_the_data_flag_wins_over_the_ledger_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONCEGATE_LEDGER", "log:/b")
    assert shown("ledger", "--data", "/a") == ("log:/a", "flag")


def test_a_file_that_is_named_counts_in_place_of_the_one_that_is_there() -> None:
    Path("oncegate.toml").write_text("port = 1\nhost = 'h'\n")
    Path("other.toml").write_text("port = 2\n")
    assert shown("port", "--config", "other.toml") == (2, "other.toml")
    assert shown("host", "--config", "other.toml") == ("127.0.0.1", "default")


@pytest.mark.parametrize(("verb", "option"), READS, ids=lambda one: one if isinstance(one, str) else one.name)
def test_an_option_of_a_verb_wins_over_its_variable_and_that_over_the_default(
    verb: str, option: click.Option, monkeypatch: pytest.MonkeyPatch
) -> None:
    def taken(*words: str) -> str:
        context = COMMANDS[verb].make_context(verb, list(words), resilient_parsing=True)
        return str(context.params[option.name])

    flag, variable, is_url = option.opts[0], str(option.envvar), option.name == "url"
    near, far = ("http://a", "http://b") if is_url else ("/a", "/b")
    monkeypatch.delenv(variable, raising=False)
    default = taken()
    monkeypatch.setenv(variable, far)
    assert (taken(), taken(flag, near)) == (far, near)
    assert default == ("None" if not is_url or verb == "doctor" else "http://127.0.0.1:8080")


def test_doctor_asks_the_url_that_is_named_before_the_one_that_the_settings_make(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(doctor, "_answers", lambda reached: asked.append(reached.url))
    monkeypatch.setattr(doctor, "_checks", lambda *_: [])
    monkeypatch.setenv("ONCEGATE_PORT", "1")
    run = CliRunner()
    for words in ((), ("--port", "2"), ("--port", "2", "--url", "http://a")):
        run.invoke(app, ["doctor", *words])
    monkeypatch.setenv("ONCEGATE_URL", "http://b")
    for words in (("--port", "2"), ("--port", "2", "--url", "http://a")):
        run.invoke(app, ["doctor", *words])
    assert asked == ["http://127.0.0.1:1", "http://127.0.0.1:2", "http://a", "http://b", "http://a"]


def shown(name: str, *words: str) -> tuple[object, str]:
    """Returns value and source of a setting, as `oncegate config` shows them."""
    result = CliRunner().invoke(app, ["config", "--json", *words], prog_name="oncegate")
    assert result.exit_code == 0, result.stderr
    answer = json.loads(result.stdout)[name]
    return answer["value"], answer["source"]
