"""A real gateway over a data folder with one namespace damaged, missing or unreadable: the others serve."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from oncegate.cli import app
from oncegate_spark import Gateway, OncegateError
from tests.support.gateway_process import GatewayProcess


def run(*arguments: object) -> Result:
    """Runs a verb in this process."""
    return CliRunner().invoke(app, list(map(str, arguments)), prog_name="oncegate")


def claimed(url: str, namespace: str, name: str) -> bool:
    """Claims an id and completes it. Returns whether it was granted."""
    with Gateway(url, namespace, timeout_ms=5_000) as gateway, gateway.attempt() as attempt:
        claim = attempt.claim([name])
        attempt.complete(claim)
        return len(claim.granted) == 1


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with three namespaces, each of which knows an id."""
    folder = tmp_path_factory.mktemp("whole")
    with GatewayProcess(folder) as process:
        for name in ("bad", "other", "default"):
            with Gateway(process.url, name) as gateway:
                gateway.create_namespace()
            assert claimed(process.url, name, "first")
        assert process.stop() == 0
    return folder


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    for name in ("data", "data.witness"):
        shutil.copytree(whole / name, tmp_path / name)
    return tmp_path


def flip(data: Path, name: str) -> None:
    """Flips a byte of the first frame of a segment that is not the last."""
    for segment in sorted((data / name / "0").glob("*.seg")):
        content = bytearray(segment.read_bytes())
        if len(content) > 4_200:
            content[4_100] ^= 1
            segment.write_bytes(content)
            return
    raise AssertionError("no segment has a frame")


def without_key(data: Path, name: str) -> None:
    (data / name / "key").unlink()


def with_anothers_key(data: Path, name: str) -> None:
    shutil.copy(data / "other/key", data / name / "key")


def gone(data: Path, name: str) -> None:
    (data / name).rename(data.parent / "elsewhere")


def without_shard(data: Path, name: str) -> None:
    shutil.rmtree(data / name / "0")


def without_witness(data: Path, name: str) -> None:
    (data.with_name("data.witness") / f"{name}.witness").unlink()


def no_folder(data: Path, name: str) -> None:
    shutil.rmtree(data / name)
    (data / name).write_text("a file")


DAMAGES: list[tuple[Callable[[Path, str], None], str, str]] = [
    (flip, "LEDGER_DAMAGED", "put a whole copy back"),
    (without_key, "LEDGER_DAMAGED", "put it back from a copy"),
    (with_anothers_key, "KEY_MISMATCH", "put the right key file back"),
    (gone, "LEDGER_DAMAGED", "DELETE /v1/namespaces/bad?confirm=bad"),
    (without_shard, "LEDGER_DAMAGED", "put the folder"),
    (without_witness, "LEDGER_DAMAGED", "oncegate ledger accept"),
    (no_folder, "LEDGER_DAMAGED", "put the folder"),
]


@pytest.mark.server
@pytest.mark.parametrize(("damage", "code", "do"), DAMAGES, ids=[damage.__name__ for damage, _, _ in DAMAGES])
def test_a_gateway_serves_whole_namespaces_and_reports_the_others(
    folder: Path, damage: Callable[[Path, str], None], code: str, do: str
) -> None:
    damage(folder / "data", "bad")
    before = {path: path.read_bytes() for path in sorted((folder / "data").rglob("bad/**/*")) if path.is_file()}
    with GatewayProcess(folder) as process:
        assert process.states() == {"bad": "DOWN", "default": "SERVING", "other": "SERVING"}
        status, ready = process.ask("GET", "/healthz/ready")
        assert (status, ready["status"], f"namespace bad is DOWN ({code}: " in ready["detail"]) == (200, "ready", True)
        assert process.ask("GET", "/healthz/ready?namespace=other")[0] == 200
        status, problem = process.ask("GET", "/healthz/ready?namespace=bad")
        assert (status, do in problem["detail"]) == (503, True), problem
        for name in ("default", "other"):
            assert [claimed(process.url, name, one) for one in ("first", "second")] == [False, True]
        with pytest.raises(OncegateError, match=f"{code}.*opened again each minute") as raised:
            claimed(process.url, "bad", "first")
        assert do in str(raised.value)
        with Gateway(process.url, "made") as gateway:
            gateway.create_namespace()
        outcome = run("doctor", "--json", "--url", process.url, "--data", folder / "data", "--port", "0")
        lines = [json.loads(line) for line in outcome.stdout.splitlines()]
        assert outcome.exit_code == 1
        assert [one["what"] for one in lines if one["level"] == "wrong" and one["check"] == "namespace"] == [
            ready["detail"]
        ]
        assert process.log.count("namespace bad does not serve: DOWN") == 1
        assert process.stop() == 0
    after = {path: path.read_bytes() for path in sorted((folder / "data").rglob("bad/**/*")) if path.is_file()}
    assert after == before, "damage is refused, touching nothing"


@pytest.mark.server
def test_a_gateway_all_of_whose_namespaces_are_damaged_does_not_start(folder: Path) -> None:
    for name in ("bad", "other", "default"):
        flip(folder / "data", name)
    process = GatewayProcess(folder)
    process.spawn()
    with pytest.raises(AssertionError, match="put a whole copy back"):
        process.wait_until("ends", lambda: False)


@pytest.mark.server
def test_a_namespace_whose_folder_is_permanently_gone_is_deleted_by_its_name(folder: Path) -> None:
    gone(folder / "data", "bad")
    with GatewayProcess(folder) as process:
        assert process.ask("DELETE", "/v1/namespaces/bad")[0] == 409
        assert process.ask("DELETE", "/v1/namespaces/bad?confirm=bad")[0] == 200
        assert process.states() == {"default": "SERVING", "other": "SERVING"}
        assert process.stop() == 0
    with GatewayProcess(folder) as process:
        with Gateway(process.url, "bad") as gateway:
            gateway.create_namespace()
        assert claimed(process.url, "bad", "first"), "it is a new one"
        assert process.stop() == 0


def test_verify_names_each_damaged_ledger_and_reads_the_others(folder: Path) -> None:
    flip(folder / "data", "bad")
    gone(folder / "data", "default")
    outcome = run("verify", "--data", folder / "data")
    assert outcome.exit_code == 1
    assert [line.split(":")[0] for line in outcome.stdout.splitlines()] == ["other"]
    assert [line.split(": ")[1] for line in outcome.stderr.splitlines()] == ["namespace bad", "namespace default"]
    lines = [json.loads(line) for line in run("verify", "--data", folder / "data", "--json").stdout.splitlines()]
    assert [(one["namespace"], one["ok"]) for one in lines] == [("bad", False), ("default", False), ("other", True)]
    one = run("verify", "--data", folder / "data", "--namespace", "other")
    assert (one.exit_code, one.stderr) == (0, "")
    assert run("verify", "--data", folder / "data", "--namespace", "bad").exit_code == 1
    missing = run("verify", "--data", folder / "data", "--namespace", "nowhere")
    assert (missing.exit_code, "there is no ledger of namespace nowhere" in missing.stderr) == (1, True)


def test_a_backup_leaves_a_damaged_ledger_out_names_it_and_can_be_restored(folder: Path) -> None:
    flip(folder / "data", "bad")
    outcome = run("backup", "--data", folder / "data", "--to", folder / "copy")
    assert (outcome.exit_code, "oncegate: namespace bad: " in outcome.stderr) == (1, True), outcome.stderr
    assert [line.split(":")[0] for line in outcome.stdout.splitlines()] == ["default", "other"]
    assert not (folder / "copy/bad").exists()
    assert run("restore", "--from", folder / "copy", "--data", folder / "again").exit_code == 0
    assert run("verify", "--data", folder / "again").exit_code == 0
    one = run("backup", "--data", folder / "data", "--to", folder / "one", "--namespace", "other")
    assert (one.exit_code, sorted(os.listdir(folder / "one"))) == (0, ["BACKUP", "other"])
    none = run("backup", "--data", folder / "data", "--to", folder / "none", "--namespace", "bad")
    assert (none.exit_code, (folder / "none").exists()) == (1, False)


def test_accept_continues_with_one_namespace_and_leaves_the_others_unchanged(folder: Path) -> None:
    """Copying a damaged folder's backup into its place is how one namespace is restored."""
    data = folder / "data"
    assert run("backup", "--data", data, "--to", folder / "copy").exit_code == 0
    flip(data, "bad")
    shutil.rmtree(data / "bad")
    shutil.copytree(folder / "copy/bad", data / "bad")
    others = {path: path.read_bytes() for path in sorted((data / "other").rglob("*")) if path.is_file()}
    outcome = run("ledger", "accept", "--data", data, "--namespace", "bad")
    assert (outcome.exit_code, outcome.stdout.startswith("bad: accepted at position ")) == (0, True), outcome.stderr
    assert {path: path.read_bytes() for path in sorted((data / "other").rglob("*")) if path.is_file()} == others
    verified = run("verify", "--data", data)
    assert (verified.exit_code, verified.stderr) == (0, "")
    assert [line.split(":")[0] for line in verified.stdout.splitlines()] == ["bad", "default", "other"]


def test_accept_goes_past_what_is_damaged_in_itself_and_names_it(folder: Path) -> None:
    data = folder / "data"
    flip(data, "default")
    shutil.rmtree(folder / "data.witness")
    outcome = run("ledger", "accept", "--data", data)
    assert (outcome.exit_code, "oncegate: namespace default: " in outcome.stderr) == (1, True), outcome.stderr
    assert [line.split(":")[0] for line in outcome.stdout.splitlines()] == ["bad", "other"]
    verified = run("verify", "--data", data)
    assert [line.split(":")[0] for line in verified.stdout.splitlines()] == ["bad", "other"]
    assert "oncegate: namespace default: " in verified.stderr


def test_a_data_folder_of_which_nothing_is_left_is_refused_and_not_touched(folder: Path) -> None:
    shutil.rmtree(folder / "data")
    (folder / "data").mkdir()
    outcome = run("verify", "--data", folder / "data")
    assert (outcome.exit_code, "is gone from" in outcome.stderr) == (1, True)
    process = GatewayProcess(folder)
    process.spawn()
    with pytest.raises(AssertionError, match="is gone from"):
        process.wait_until("ends", lambda: False)
    assert sorted(os.listdir(folder / "data")) == []


def test_init_is_refused_where_a_folder_of_one_namespace_is_gone(folder: Path) -> None:
    shutil.rmtree(folder / "data")
    outcome = run("init", "--data", folder / "data")
    assert (outcome.exit_code, "is gone from" in outcome.stderr) == (1, True)
