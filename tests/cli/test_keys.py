"""`oncegate keys add`, `list` and `revoke`: their output, the stored file, and the one-line refusals."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from oncegate.cli import app
from oncegate.transports.access import keys
from tests.support.full_disks import fill, small_disk


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path / "keys.json"


def run(*words: str, file: Path) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["keys", *words, "--keys", str(file)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


def added(name: str, file: Path) -> tuple[str, str]:
    """Adds a key and returns its id and secret."""
    status, out, _ = run("add", name, "--role", "write", "--role", "ack", "--namespace", "orders", file=file)
    assert status == 0
    parts = keys.parts_of(out.strip())
    assert parts is not None, out
    return parts


def test_a_key_is_shown_once_and_its_file_is_for_its_owner_alone(file: Path) -> None:
    key_id, secret = added("loader", file)
    assert file.stat().st_mode & 0o777 == 0o600
    assert keys.read(file)[key_id].fits(secret)
    status, out, _ = run("list", file=file)
    assert status == 0
    for words in (key_id, "loader", "write, ack", "orders"):
        assert words in out
    assert secret not in out + file.read_text()


def test_a_key_belongs_to_its_tenant_and_a_key_without_one_to_none(file: Path) -> None:
    run("add", "loader", "--role", "write", "--namespace", "orders", "--tenant", "acme", file=file)
    added("reader", file)
    assert [(key.name, key.tenant) for key in keys.read(file).values()] == [("loader", "acme"), ("reader", "")]
    assert "acme" in run("list", file=file)[1]
    older = file.read_text().replace('"tenant"', '"left_out"')
    file.write_text(re.sub(r',\s*"left_out": "[a-z]*"', "", older))
    assert [key.tenant for key in keys.read(file).values()] == ["", ""], "as files of older builds are"


def test_a_tenant_whose_name_is_empty_makes_no_key(file: Path) -> None:
    status, _, output = run("add", "job", "--role", "write", "--namespace", "*", "--tenant", "", file=file)
    assert (status, "no key was made" in output, file.exists()) == (2, True, False)


def test_a_revoked_key_is_gone_and_the_others_stay(file: Path) -> None:
    (first, _), (second, secret) = added("loader", file), added("reader", file)
    assert run("revoke", first, file=file) == (0, f"key {first} of loader is revoked\n", "")
    assert keys.read(file).keys() == {second}
    assert keys.read(file)[second].fits(secret)
    before = file.read_bytes()
    status, out, err = run("revoke", first, file=file)
    assert (status, out) == (1, "")
    assert err == f"oncegate: {file} has no key {first}; nothing was changed\n"
    assert file.read_bytes() == before


@pytest.mark.parametrize("words", [("list",), ("revoke", "0" * 12), ("add", "x", "--role", "read", "--namespace", "*")])
def test_a_file_that_is_none_of_keys_is_refused_in_one_line_and_left_as_it_is(
    words: tuple[str, ...], file: Path
) -> None:
    file.write_text('{"keys": [{"id": 7}]}')
    status, out, err = run(*words, file=file)
    assert (status, out) == (1, "")
    assert err.startswith(f"oncegate: {file}: ")
    assert err.count("\n") == 1
    assert file.read_text() == '{"keys": [{"id": 7}]}'


def test_a_name_that_no_namespace_can_have_makes_no_key(file: Path) -> None:
    status, out, err = run("add", "x", "--role", "read", "--namespace", "no such name!", file=file)
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert list(file.parent.iterdir()) == [], "nor a lock beside it"


@pytest.mark.parametrize("words", [("list",), ("revoke", "0" * 12)])
def test_a_missing_file_is_refused_with_the_verb_that_makes_it(words: tuple[str, ...], file: Path) -> None:
    status, _, err = run(*words, file=file)
    assert (status, "`oncegate keys add` creates it" in err) == (1, True)
    assert list(file.parent.iterdir()) == [], "nor a lock beside it"


def test_a_full_disk_keeps_the_existing_keys_and_is_reported_with_their_file(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 1) as disk:
        file = disk / "keys.json"
        added("loader", file)
        before = file.read_bytes()
        fill(disk)
        status, out, err = run("add", "x", "--role", "read", "--namespace", "orders", file=file)
        assert (status, out, err) == (1, "", f"oncegate: {file}: No space left on device\n")
        assert file.read_bytes() == before
        assert not file.with_name("keys.json.part").exists()
