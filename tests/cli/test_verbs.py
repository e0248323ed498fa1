"""The command line's own verbs: their output, and their refusals in one line each."""

import json
import os
import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from typer.testing import CliRunner

import oncegate
from oncegate.cli import app
from oncegate.testing.local import LocalGateway
from oncegate_spark import Gateway

VERBS = (
    "serve",
    "config",
    "explain",
    "doctor",
    "audit",
    "export",
    "import",
    "forget",
    "release",
    "fence",
    "drain",
    "log",
    "resolve",
    "demo",
    "init",
    "ledger",
    "backup",
    "restore",
    "verify",
    "size",
    "kafka",
)


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, list(arguments), prog_name="oncegate")
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("ONCEGATE_PORT", "ONCEGATE_LEASE_MS", "ONCEGATE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself(verb: str) -> None:
    status, out, _ = run(verb, "--help")
    assert status == 0
    assert "Usage: oncegate " + verb in out


def test_the_version_is_shown() -> None:
    assert run("--version") == (0, f"oncegate {oncegate.__version__}\n", "")


@pytest.mark.parametrize("width", [80, 133])
def test_paragraphs_of_help_flow_to_the_edge_and_examples_keep_their_lines(
    width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    for verb, examples in (("verify", 2), ("restore", 1)):
        shown = run(verb, "--help")[1]
        lines = [line.strip() for line in shown.partition("╭")[0].splitlines()]
        assert sum(line.startswith("Example: oncegate ") for line in lines) == examples, shown
        for line, behind in pairwise(lines):
            if line and behind and not behind.startswith("Example: "):
                assert len(f"{line} {behind.split()[0]}") > width - 2, (line, behind)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_gets_its_completion(shell: str) -> None:
    command = [sys.executable, "-m", "oncegate"]
    env = {"_ONCEGATE_COMPLETE": f"source_{shell}", "PATH": "/usr/bin"}
    shown = subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout
    assert "_ONCEGATE_COMPLETE=complete" in shown
    assert "--install-completion" in run("--help")[1]


def test_a_completion_that_cannot_be_written_is_one_line() -> None:
    line = f"{sys.executable} -m oncegate --install-completion; exit $?"
    output = subprocess.run(
        ["bash", "-c", line], env={**os.environ, "HOME": "/proc/nobody"}, capture_output=True, text=True, check=False
    )
    assert (output.returncode, output.stderr) == (1, "oncegate: /proc/nobody: No such file or directory\n")


def test_config_shows_where_each_setting_comes_from(empty_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (empty_folder / "oncegate.toml").write_text("port = 1\nlease_ms = 2000\nbody_bytes = 3\n")
    monkeypatch.setenv("ONCEGATE_PORT", "11")
    monkeypatch.setenv("ONCEGATE_LEASE_MS", "12000")
    status, out, _ = run("config", "--port", "21", "--json")
    answer = json.loads(out)
    assert status == 0
    assert answer["port"] == {"value": 21, "source": "flag"}
    assert answer["lease_ms"] == {"value": 12_000, "source": "ONCEGATE_LEASE_MS"}
    assert answer["body_bytes"] == {"value": 3, "source": "oncegate.toml"}
    assert answer["id_bytes"] == {"value": 1_024, "source": "default"}


def test_config_shows_a_table_to_a_person() -> None:
    status, out, _ = run("config", "--data", "/srv/once")
    assert status == 0
    assert any("ledger" in line and "log:/srv/once" in line and "flag" in line for line in out.splitlines())


def test_config_refuses_what_serve_would_refuse(empty_folder: Path) -> None:
    (empty_folder / "oncegate.toml").write_text("prot = 1\n")
    status, out, err = run("config")
    assert (status, out) == (1, "")
    assert err.startswith("oncegate: ")
    assert err.count("\n") == 1


def test_explain_shows_what_a_gateway_knows_about_an_id(empty_folder: Path) -> None:
    with LocalGateway() as gateway:
        status, out, _ = run("explain", "a", "--url", gateway.url)
        assert (status, out.split(":")[0]) == (0, "ABSENT")
        status, out, _ = run("explain", "a", "b", "--url", gateway.url, "--json")
        answer = json.loads(out)
        assert (status, answer["state"], answer["id_set"]) == (0, "ABSENT", "")
        status, _, err = run("explain", "a", "--url", gateway.url, "--namespace", "nobody")
        assert status == 1
        assert "no namespace nobody; create it with: " in err
        assert err.endswith("(fix)\n")
        status, _, err = run("explain", "a", "--url", gateway.url, "--namespace", "No Body")
        assert (status, "no namespace 'No Body': lower-case letters" in err, "create it" in err) == (1, True, False)


def test_explain_shows_that_an_id_came_with_a_payload(empty_folder: Path) -> None:
    with LocalGateway() as gateway, Gateway(gateway.url) as client, client.attempt() as attempt:
        attempt.complete(attempt.claim(["a"], payloads=["x"]))
        attempt.complete(attempt.claim(["b"]))
        said = [run("explain", id_, "--url", gateway.url)[1] for id_ in ("a", "b")]
    assert ["with another one it is told CONFLICT" in text for text in said] == [True, False]


def test_resolve_clears_leftovers_of_a_dead_task_and_counts_them(empty_folder: Path) -> None:
    with LocalGateway() as gateway, Gateway(gateway.url) as client:
        producer = client.producer("events/3", driver="load")
        producer.register()
        producer.claim([1, 2])
        here = ("--url", gateway.url, "--why", "both are in the sink")
        status, _, err = run("resolve", "done", "--producer", "events/3", *here)
        assert status == 1
        assert "held for" in err
        assert "(retry)" in err
        producer.close()
        status, out, _ = run("resolve", "done", "--producer", "events/3", "--last", "2", *here)
        assert (status, out) == (0, "2 sequences are done from now on\n")
        assert run("resolve", "not-done", "--producer", "events/3", *here)[1] == "nothing was left to clear\n"
        for wrong in ((), ("--claim", "x", "--producer", "p"), ("--claim", "x", "--first", "1")):
            status, _, err = run("resolve", "done", *wrong, *here)
            assert status == 1
            assert "name --claim, or else --producer" in err


def test_explain_of_a_gateway_that_is_not_there_names_the_address() -> None:
    status, _, err = run("explain", "a", "--url", "http://127.0.0.1:9")
    assert status == 1
    assert err.startswith("oncegate: no gateway answers at http://127.0.0.1:9 (")
    assert "oncegate serve" in err
    assert run("explain", "a", "--url", "gateway:8080")[2].startswith("oncegate: gateway:8080 is not the address")


def test_the_demo_outside_the_repository_reports_where_it_is() -> None:
    status, _, err = run("demo")
    assert status == 1
    assert "clone it, then `make demo`" in err


@pytest.mark.parametrize("words", ["verify", "ledger dump", "ledger accept"])
def test_a_verb_without_a_ledger_reports_that_in_one_line_without_a_traceback(words: str) -> None:
    status, out, output = run(*words.split(), "--data", "nowhere")
    assert (status, out, output.count("\n")) == (1, "", 1)
    assert "nowhere" in output


# Python buffers what a verb writes to a pipe or a file, unless this variable is set.
WRITTEN = [(("config", "--json"), {"PYTHONUNBUFFERED": "1"}), (("config", "--json"), {}), (("--version",), {})]


@pytest.mark.parametrize(("words", "buffering"), WRITTEN, ids=["unbuffered", "buffered", "short"])
def test_an_output_that_is_read_no_further_ends_a_verb_without_a_word(
    words: tuple[str, ...], buffering: dict[str, str]
) -> None:
    """`oncegate ledger dump --json | head -1` closes the output early."""
    reading, writing = os.pipe()
    os.close(reading)
    done = written_to(writing, words, buffering)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, "")


@pytest.mark.parametrize(("words", "buffering"), WRITTEN, ids=["unbuffered", "buffered", "short"])
def test_an_output_on_a_full_disk_ends_a_verb_with_one_line(words: tuple[str, ...], buffering: dict[str, str]) -> None:
    done = written_to(os.open("/dev/full", os.O_WRONLY), words, buffering)
    assert (done.returncode, done.stderr) == (1, "oncegate: the system: No space left on device\n")


def test_a_verb_without_an_output_succeeds_in_silence() -> None:
    command = ["sh", "-c", 'exec "$0" -m oncegate config --json >&-', sys.executable]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def written_to(output: int, words: tuple[str, ...], buffering: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    """Runs the command line with its output in this descriptor, which is closed."""
    command = [sys.executable, "-m", "oncegate", *words]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"} | buffering
    try:
        return subprocess.run(command, stdout=output, stderr=subprocess.PIPE, text=True, check=False, env=environment)
    finally:
        os.close(output)


@pytest.mark.parametrize(
    ("verb", "instead"),
    [
        ("serve", "serve --ledger"),
        ("init", "serve --ledger"),
        ("backup --to copy", "replicas and copies"),
        ("restore --from copy", "put back into its servers"),
        ("verify", "whenever it opens it"),
        ("ledger dump", "serve --ledger"),
    ],
)
def test_the_url_of_a_ledger_is_no_data_folder(verb: str, instead: str, empty_folder: Path) -> None:
    status, out, error = run(*verb.split(), "--data", "kafka://localhost:9092/p")
    assert (status, out) == (1, "")
    assert error.startswith("oncegate: --data takes a folder")
    assert instead in error
    assert error.count("\n") == 1
    assert list(empty_folder.iterdir()) == []


@pytest.mark.parametrize("url", ["kafka://ada:s3cret@localhost:1/p", "redis://ada:s3cr/s3cret@h:1/p?password=s3cret"])
@pytest.mark.parametrize(
    "words",
    [
        "config --ledger",
        "doctor --port 0 --ledger",
        "verify --data",
        "export --to x.parquet --ledger",
        "kafka plan --ledger",
        "kafka plan --check --ledger",
        "audit --id key",
        "verify --against t --input x.csv --id-col id --output-id key --output",
    ],
)
def test_a_password_in_the_url_of_a_ledger_is_never_shown(words: str, url: str, empty_folder: Path) -> None:
    (empty_folder / "x.csv").write_text("id\na\n")
    _, out, error = run(*words.split(), url)
    assert "s3cr" not in out + error
    assert sorted(path.name for path in empty_folder.iterdir()) == ["x.csv"]
