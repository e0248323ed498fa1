"""Operators' verbs against a real gateway: each prints its effect and logs who and why; a refusal logs nothing."""

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from typer.testing import CliRunner

from oncegate.cli import app
from oncegate.cli.requests import RunningGateway
from oncegate.testing import LocalGateway
from oncegate_spark import Gateway

WHY = ("--reason", "its rows were lost")


@pytest.fixture(scope="module")
def gateway() -> Iterator[LocalGateway]:
    with LocalGateway() as found:
        yield found


@pytest.fixture
def url(gateway: LocalGateway, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.delenv("ONCEGATE_API_KEY", raising=False)
    monkeypatch.setenv("ONCEGATE_URL", gateway.url)
    monkeypatch.setenv("COLUMNS", "200")
    return gateway.url


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, list(arguments), prog_name="oncegate")
    return result.exit_code, result.stdout, result.stderr


def log(namespace: str) -> list[tuple[str, str, str]]:
    lines = run("log", "--json", "--namespace", namespace)[1].splitlines()
    return [(one["action"], one["who"], one["why"]) for one in map(json.loads, lines)]


def test_ids_are_forgotten_from_words_and_from_a_file(url: str, tmp_path: Path) -> None:
    with Gateway(url, namespace="forgetting") as client:
        client.create_namespace()
        here = ("--namespace", "forgetting", "--who", "ada", *WHY)
        with client.attempt() as attempt:
            attempt.complete(attempt.claim(["a", "b", "c"]))
            message = "1 forgotten; 1 not known in set '' of namespace forgetting (--id-set names another)\n"
            assert run("forget", "a", "zz", *here)[:2] == (0, message)
            assert run("forget", "b", "--namespace", "forgetting", "--reason", " ")[0] == 2, "a reason is required"
            (tmp_path / "ids").write_text("b\nc\n")
            assert run("forget", "--file", str(tmp_path / "ids"), *here)[:2] == (0, "2 forgotten\n")
            assert RunningGateway(url, "forgetting").ask_about(
                "/ids:take", {"owner": "job", "ids": [["UA", "1545"]], "id_set": ""}
            )
            assert json.loads(run("forget", "--columns", "UA", "1545", "--json", *here)[1]) == {"forgotten": 1}
        for wrong in ((), ("a", "--file", str(tmp_path / "ids"))):
            status, _, err = run("forget", *wrong, *here)
            assert (status, "name ids, or else a --file" in err) == (1, True)
        assert log("forgetting") == [("forget", "ada", "its rows were lost")] * 3
        shown = run("log", "--namespace", "forgetting")[1]
        assert "its rows were lost" in shown


FORGET_ALL = ("forget", "--all", "--id-set", "orders", *WHY)


@contextmanager
def one_known(namespace: str) -> Iterator[Callable[[], list[str]]]:
    """Creates a namespace whose set `orders` knows one id; yields a function that returns the ids a new attempt is
    granted."""
    with Gateway(os.environ["ONCEGATE_URL"], namespace=namespace) as client:
        client.create_namespace()
        with client.attempt(id_set="orders") as attempt:
            attempt.complete(attempt.claim(["a"]))

        def granted() -> list[str]:
            with client.attempt(id_set="orders") as attempt:
                claimed = attempt.claim(["a"])
                attempt.release(claimed)
                return [str(one) for one in claimed.granted]

        yield granted


def typed(keys: bytes, *arguments: str) -> tuple[int, str]:
    """Runs a verb in a new terminal and types `keys` at its prompt; returns the exit status and the output."""
    ours, its = pty.openpty()
    try:
        command = (sys.executable, "-m", "oncegate", *arguments)
        process = subprocess.Popen(command, stdin=its, stdout=its, stderr=its, start_new_session=True)
        os.close(its)
        shown, is_typed = b"", False
        with suppress(OSError):  # the last program has closed the terminal
            while some := os.read(ours, 4_096):
                shown += some
                if not is_typed and shown.rstrip().endswith(b":"):
                    os.write(ours, keys)
                    is_typed = True
        return process.wait(), shown.decode()
    finally:
        os.close(ours)


def test_a_set_is_forgotten_once_its_name_is_confirmed_by_an_option(url: str) -> None:
    with one_known("forgetting-all") as granted:
        here = (*FORGET_ALL, "--namespace", "forgetting-all", "--who", "ada")
        shown = "every id of set 'orders' is forgotten (1 times by now)\n"
        assert run(*here, "--confirm", "orders")[:2] == (0, shown)
        assert granted() == ["a"]
        assert json.loads(run(*here, "--confirm", "orders", "--json")[1]) == {"id_set": "orders", "times": 2}
        assert log("forgetting-all") == [("forget --all", "ada", "its rows were lost")] * 2


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--confirm", "order"), "confirm is 'order', not the set's name 'orders'; nothing was forgotten (fix)"),
        (("--confirm", "Orders"), "confirm is 'Orders', not the set's name 'orders'; nothing was forgotten (fix)"),
        (("--confirm", ""), "confirm is '', not the set's name 'orders'; nothing was forgotten (fix)"),
        ((), "--all wants --confirm with the set's name, 'orders'; nothing was forgotten"),
        (("a", "--confirm", "orders"), "--all is every id of the set: name none; nothing was forgotten"),
        (("--file", "ids", "--confirm", "orders"), "--all is every id of the set: name none; nothing was forgotten"),
        (("--columns", "--confirm", "orders"), "--all is every id of the set: name none; nothing was forgotten"),
    ],
)
def test_a_set_is_not_forgotten_without_its_name_and_nothing_is_noted(
    url: str, words: tuple[str, ...], says: str
) -> None:
    """In the fourth case there is no terminal for the prompt."""
    with one_known("refusing-all") as granted:
        assert run(*FORGET_ALL, *words, "--namespace", "refusing-all") == (1, "", f"oncegate: {says}\n")
        assert granted() == []
        assert log("refusing-all") == []


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--all",), "--all wants the set's name: --id-set NAME; nothing was forgotten"),
        (("a", "--id-set", "orders", "--confirm", "orders"), "--confirm is for --all; nothing was forgotten"),
    ],
)
def test_all_and_confirm_go_together_with_a_set(url: str, words: tuple[str, ...], says: str) -> None:
    assert run("forget", *words, *WHY) == (1, "", f"oncegate: {says}\n")


@pytest.mark.parametrize(
    ("keys", "status", "says"),
    [
        (b"orders\n", 0, "every id of set 'orders' is forgotten (1 times by now)"),
        (b"order\n", 1, "confirm is 'order', not the set's name 'orders'; nothing was forgotten"),
        (b"\n", 1, "confirm is '', not the set's name 'orders'; nothing was forgotten"),
        (b"\x04", 1, "Aborted"),
    ],
    ids=["its name", "another", "nothing", "end of input"],
)
def test_a_terminal_is_asked_for_the_name_of_the_set(url: str, keys: bytes, status: int, says: str) -> None:
    namespace = f"asking-{status}-{len(keys)}"
    with one_known(namespace) as granted:
        ended, shown = typed(keys, *FORGET_ALL, "--namespace", namespace)
        assert "Type the name of the set whose ids are all forgotten ('orders'):" in shown
        assert (ended, says in shown) == (status, True), shown
        assert granted() == (["a"] if status == 0 else [])
        assert len(log(namespace)) == (status == 0)


def test_the_enter_key_alone_forgets_no_claims_whose_set_has_an_empty_name(url: str) -> None:
    here = ("forget", "--all", "--id-set", "", *WHY, "--namespace", "unnamed")
    with Gateway(url, namespace="unnamed") as client:
        client.create_namespace()
        with client.attempt() as attempt:
            attempt.complete(attempt.claim(["a"]))
        says = "oncegate: --all wants --confirm with the set's name, ''; nothing was forgotten"
        assert typed(b"\n", *here) == (1, f"{says}\r\n")
        assert (list(client.attempt().claim(["a"]).granted), log("unnamed")) == ([], [])
        assert run(*here, "--confirm", "")[0] == 0
        with client.attempt() as attempt:
            claimed = attempt.claim(["a"])
            attempt.complete(claimed)
            assert list(claimed.granted) == ["a"]


def test_a_verb_that_changes_something_is_misused_without_a_reason(url: str) -> None:
    for words in (
        ("forget", "a"),
        ("release", "x"),
        ("fence", "p"),
        ("drain",),
        ("replay", "f.csv", "--topic", "t", "--id-col", "i"),
        ("resolve", "done", "--claim", "x"),
    ):
        status, _, err = run(*words)
        assert (status, "--reason" in err) == (2, True), words


def test_a_claim_is_released_once_its_holder_is_declared_dead(url: str) -> None:
    with Gateway(url, namespace="releasing") as client:
        client.create_namespace()
        attempt = client.attempt()
        claimed = attempt.claim(["a"])
        here = (claimed.claim, "--namespace", "releasing", *WHY)
        status, _, err = run("release", *here)
        assert (status, "held for" in err, log("releasing")) == (1, True, [])
        assert run("release", *here, "--holder-gone")[:2] == (0, "1 ids are free\n")
        assert run("release", *here)[1] == "it held nothing that was left: nothing was changed\n"
        answer = json.loads(run("log", "--json", "--namespace", "releasing")[1])
        assert (answer["action"], answer["subject"], answer["changed"]) == ("release", f"claim {claimed.claim}", 1)


def test_the_trail_has_each_action_by_the_words_that_were_typed(url: str) -> None:
    with Gateway(url, namespace="typed") as client:
        client.create_namespace()
        with client.attempt() as attempt:
            attempt.complete(attempt.claim(["a"]))
        producer = client.producer("events/3", driver="load")
        producer.register()
        producer.claim([1, 2, 3])
        verbs = (
            "forget a",
            "fence events/3",
            "resolve done --producer events/3 --last 1",
            "resolve not-done --producer events/3",
        )
        for verb in verbs:
            assert run(*verb.split(), "--namespace", "typed", *WHY)[0] == 0, verb
    told = [json.loads(line) for line in run("log", "--json", "--namespace", "typed")[1].splitlines()]
    assert [(one["action"], one["subject"], one["changed"]) for one in told] == [
        ("resolve not-done", "producer events/3", 2),
        ("resolve done", "producer events/3", 1),
        ("fence", "producer events/3", 2),
        ("forget", "ids of set ''", 1),
    ]


def test_a_producer_is_fenced_and_its_next_attempt_need_not_wait(url: str) -> None:
    with Gateway(url, namespace="fencing") as client:
        client.create_namespace()
        client.producer("events/3", driver="load").register()
        status, out, _ = run("fence", "events/3", "--namespace", "fencing", *WHY)
        assert (status, "is at epoch 2" in out) == (0, True)
        client.producer("events/3", driver="load").register()
        status, _, err = run("fence", "nobody", "--namespace", "fencing", *WHY)
        assert (status, "there is no producer nobody" in err) == (1, True)


def test_a_drain_of_a_gateway_that_restarts_meanwhile_is_no_drain(
    gateway: LocalGateway, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Status 0 would mean that the gateway may be stopped, although it accepts new work."""
    with Gateway(url) as client:
        attempt = client.attempt()
        claimed = attempt.claim(["held over a restart"])
        with monkeypatch.context() as patched:
            patched.setattr("time.sleep", lambda _: gateway.restart())
            status, out, err = run("drain", *WHY)
        assert (status, out, "it takes new work" in err, err.count("\n")) == (1, "", True, 1)
        attempt.complete(claimed)


def test_a_drain_names_a_claim_that_is_never_settled(url: str) -> None:
    with Gateway(url, namespace="left") as client:
        client.create_namespace()
        claim = client.attempt().claim(["dead"], lease_ms=1_000).claim
    try:
        status, _, err = run("drain", "--wait-ms", "1500", *WHY)
        assert (status, f"--claim {claim} --namespace left" in err) == (1, True), err
    finally:
        assert run("resolve", "not-done", "--claim", claim, "--namespace", "left", *WHY)[0] == 0
        assert run("drain", "--undo", *WHY)[0] == 0


def test_the_trail_is_whole_in_a_terminal_of_80_columns(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with Gateway(url, namespace="narrow") as client:
        client.create_namespace()
        claim = client.attempt().claim(["a"]).claim
        assert run("release", claim, "--holder-gone", "--namespace", "narrow", "--reason", "long " * 20)[0] == 0
    shown = run("log", "--namespace", "narrow")[1]
    cells = [line.split("│") for line in shown.splitlines() if "│" in line]
    when, to = ("".join(cell[place].strip() for cell in cells) for place in (1, 4))
    assert (len(when), when[-1], claim in to, "…" in shown) == (len("2026-11-26T21:46:55Z"), "Z", True, False), shown


def test_a_gateway_is_drained_when_nothing_is_open_and_otherwise_lists_what_is_open(url: str) -> None:
    with Gateway(url) as client:
        attempt = client.attempt()
        claimed = attempt.claim(["held"])
        try:
            status, out, err = run("drain", "--wait-ms", "1", *WHY)
            assert (status, out, "1 claims are open still" in err) == (1, "", True)
            attempt.complete(claimed)
            assert run("drain", *WHY)[:2] == (0, "drained: 0 claims are open\n")
        finally:
            assert run("drain", "--undo", *WHY)[:2] == (0, "it takes new work\n")
        assert list(client.attempt().claim(["held"]).granted) == []
        assert [action for action, *_ in log("default")][:3] == ["drain --undo", "drain", "drain"]
