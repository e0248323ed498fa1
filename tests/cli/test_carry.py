"""An export of one ledger imported into another: done ids stay done, taken ids stay their owner's, the rest is
refused."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from oncegate.cli import app
from oncegate.cli.requests import RunningGateway
from oncegate.testing import LocalGateway
from oncegate_spark import Gateway
from tests.support.full_disks import fill, small_disk
from tests.support.redis_server import RedisServer

WHY = ("--reason", "moved")


def run(*words: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, [*map(str, words)], prog_name="oncegate")
    return result.exit_code, result.stdout, result.stderr


def verdicts(client: Gateway, ids: list[str], **more: Any) -> list[str]:
    claimed = client.attempt().claim(ids, **more)
    return ["granted" if one in list(claimed.granted) else "known" for one in ids]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Exports 300 done ids, one of them with a payload, and two that an owner took, from a gateway that keeps
    running."""
    folder = tmp_path_factory.mktemp("carry")
    with LocalGateway(f"log:{folder / 'data'}") as gateway, Gateway(gateway.url, namespace="orders") as client:
        client.create_namespace()
        attempt = client.attempt()
        attempt.complete(attempt.claim([f"o-{number}" for number in range(299)]))
        attempt.complete(attempt.claim(["paid"], payloads=["100"]))
        client.take("job", ["t-1", "t-2"])
        to = folder / "orders.parquet"
        words = ("--data", folder / "data", "--namespace", "orders", "--to", to)
        assert run("export", *words)[:2] == (0, f"302 ids are in {to}\n")
        attempt.claim(["open"])
        status, _, err = run("export", *words)
        assert (status, "1 claims are open" in err) == (1, True)
        assert json.loads(run("export", *words, "--without-open-claims", "--json")[1])["ids"] == 302
    assert not list(folder.glob("*.part"))
    assert to.stat().st_mode & 0o077 == 0, "the key is in it"
    return to


@pytest.fixture(params=["log", "redis"])
def elsewhere(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LocalGateway]:
    if request.param == "log":
        with LocalGateway() as gateway:
            yield gateway
        return
    with RedisServer(tmp_path) as server:
        place = f"redis://{server.address}/carry?bare_key=yes"
        with LocalGateway(place, witness=str(tmp_path / "witness")) as gateway:
            yield gateway


def test_a_round_trip_keeps_what_is_known_as_known(exported: Path, elsewhere: LocalGateway) -> None:
    here = ("--url", elsewhere.url, "--namespace", "orders", *WHY)
    assert run("import", exported, *here)[:2] == (0, "302 ids are known in orders, 302 of them from now on\n")
    assert json.loads(run("import", exported, *here, "--json")[1])["imported"] == 0, (
        "it may be interrupted, and repeated"
    )
    elsewhere.restart()
    with Gateway(elsewhere.url, namespace="orders") as client:
        assert verdicts(client, ["o-0", "o-298", "new", "open", "paid"]) == [
            "known",
            "known",
            "granted",
            "granted",
            "known",
        ]
        assert RunningGateway(elsewhere.url, "orders").ask_about("/ids:explain?id=paid")["digest_kept"] is True
        assert list(client.take("job", ["t-1"]).granted) == ["t-1"]
        assert list(client.take("another", ["t-1"]).granted) == []
    log = [
        json.loads(line)
        for line in run("log", "--json", "--url", elsewhere.url, "--namespace", "orders")[1].splitlines()
    ]
    assert [(one["action"], one["changed"], one["why"]) for one in log] == [("import", 302, "moved")]


def test_a_namespace_of_another_key_takes_nothing_in(exported: Path) -> None:
    with LocalGateway("memory:") as gateway:
        status, _, err = run("import", exported, "--url", gateway.url, "--namespace", "default", *WHY)
        assert (status, "has another key" in err) == (1, True)


def test_what_does_not_fit_is_refused_whole_and_leaves_no_word(exported: Path) -> None:
    with LocalGateway("memory:") as gateway, Gateway(gateway.url, namespace="orders") as client:
        key = pa.parquet.read_schema(exported).metadata[b"oncegate.key"].decode()
        here = ("--url", gateway.url, "--namespace", "orders", *WHY)
        RunningGateway(gateway.url).ask("v1/namespaces/orders", {"key": key}, "PUT")
        held = client.attempt()
        claimed = held.claim(["o-1"])
        status, _, err = run("import", exported, *here)
        assert (status, "1 of these ids are held by claims here" in err) == (1, True)
        held.complete(claimed)
        client.take("another", ["t-1"])
        status, _, err = run("import", exported, *here)
        assert (status, "1 of these ids belong to an owner there" in err) == (1, True)
        assert run("log", "--json", *here[:4])[1] == ""
        assert verdicts(client, ["o-0"]) == ["granted"], "nothing of it was taken in"


def test_an_import_that_would_be_refused_makes_no_namespace(exported: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.parquet"
    shutil.copy(exported, cut)
    with LocalGateway("memory:") as gateway:
        here = ("--url", gateway.url, "--namespace", "orders")
        for file, why in ((exported, "x" * 2_000), (tmp_path / "none.parquet", "moved"), (tmp_path, "moved")):
            status, out, err = run("import", file, *here, "--reason", why)
            assert (status, out, err.count("\n"), "nothing was imported" in err) == (1, "", 1, True), err
        assert run("import", exported, *here, "--reason", "moved", "--who", "")[0] == 2
        assert RunningGateway(gateway.url).ask("v1/namespaces")["namespaces"] == ["default"]


def test_a_file_of_more_ids_than_a_request_takes_is_imported(exported: Path) -> None:
    with LocalGateway("memory:", ids_per_request=100) as gateway:
        here = ("--url", gateway.url, "--namespace", "orders", *WHY)
        assert run("import", exported, *here)[:2] == (0, "302 ids are known in orders, 302 of them from now on\n")


def test_an_export_that_finds_no_room_or_no_folder_leaves_nothing(exported: Path, tmp_path: Path) -> None:
    data = exported.parent / "data"
    words = ("export", "--data", data, "--namespace", "orders", "--without-open-claims", "--to")
    with small_disk(tmp_path / "disk", 1) as disk:
        fill(disk)
        status, out, err = run(*words, disk / "orders.parquet")
        message = f"{disk / 'orders.parquet'}: No space left on device; nothing was written"
        assert (status, out, err) == (1, "", f"oncegate: {message}\n")
        assert [path.name for path in disk.iterdir()] == ["ballast"]
    for to in (tmp_path, tmp_path / "none" / "orders.parquet"):
        status, out, err = run(*words, to)
        assert (status, out, err.count("\n"), "nothing was written" in err) == (1, "", 1, True), err
    assert [path.name for path in tmp_path.iterdir()] == ["disk"]


def test_other_files_and_what_a_file_of_ids_would_leave_out_are_refused(tmp_path: Path) -> None:
    pa.parquet.write_table(pa.table({"id": ["a"]}), tmp_path / "other.parquet")
    for name, told in (("other.parquet", "none that `oncegate export`"), ("missing", "cannot be read as Parquet")):
        status, _, err = run("import", tmp_path / name, "--namespace", "n", "--url", "http://127.0.0.1:9", *WHY)
        assert (status, told in err) == (1, True), err
    folder = tmp_path / "data"
    with LocalGateway(f"log:{folder}") as gateway, Gateway(gateway.url) as client:
        client.producer("p", driver="d").register()
    words = ("--data", folder, "--to", tmp_path / "out.parquet")
    status, _, err = run("export", *words)
    assert (status, "there are 1 producers" in err, (tmp_path / "out.parquet").exists()) == (1, True, False)
    assert run("export", *words, "--ids-only")[0] == 0
    status, _, err = run("export", *words, "--namespace", "nowhere")
    assert (status, "no ledger of namespace nowhere" in err) == (1, True)
