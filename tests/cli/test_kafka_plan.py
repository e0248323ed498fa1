"""`oncegate kafka plan` without brokers: its output, and its one-line refusals."""

import json
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from oncegate.cli import app
from oncegate.ledgers.kafka.address import parse_address
from oncegate.ledgers.kafka.topics import KEPT, wanted

URL = "kafka://a:9092,b:9092/once?bare_key=yes"


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


def plan(*options: str, url: str = URL) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["kafka", "plan", "--ledger", url, *options])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


def test_it_names_topics_rights_and_transactional_ids_with_their_owners() -> None:
    status, out, _ = plan("--format", "json", "--namespace", "mail", "--namespace", "orders")
    answer = json.loads(out)
    assert status == 0
    assert answer["principal"] == "User:ANONYMOUS"
    kinds = ("ledger", "states", "outputs", "stages", "direct")
    names = [f"once.{space}.{kind}" for space in ("mail", "orders") for kind in kinds]
    assert [one["name"] for one in answer["topics"]] == ["once.namespaces", *names]
    assert {one["replication"] for one in answer["topics"]} == {3}
    several = {one["name"] for one in answer["topics"] if one["partitions"] == 4}
    assert several == {"once.mail.direct", "once.orders.direct"}
    assert [(one["name"], one["alone"]) for one in answer["rights"]] == [("once.", False)] * 2
    assert [one["first"] for one in answer["transactional_ids"]] == [
        "once.namespaces",
        "once.mail/1/1",
        "once.orders/1/1",
    ]


def test_a_person_sees_the_same_as_tables() -> None:
    status, out, _ = plan()
    assert status == 0
    for words in ("once.default.states", "min.insync.replicas=2", "retention.ms=-1", "once.default/1/1 and on"):
        assert words in out


def test_topics_are_planned_as_the_ledger_makes_and_checks_them() -> None:
    answer = json.loads(plan("--format", "json")[1])["topics"]
    ledger = next(one for one in answer if one["name"] == "once.default.ledger")
    (made,) = wanted(parse_address(URL.removeprefix("kafka:")), ["once.default.ledger"], KEPT)
    assert ledger["settings"] == made.settings
    assert made.wrong(made.settings, [3]) == []
    assert made.wrong({**made.settings, "min.insync.replicas": "1"}, [2]) == [
        "min.insync.replicas=1, less than 2",
        "2 replicas, not 3",
    ]


def test_its_lines_are_words_of_a_shell_whatever_the_principal_is_called() -> None:
    lines = plan("--format", "commands", "--principal", "User:CN=once gate")[1].splitlines()
    words = [shlex.split(line) for line in lines]
    assert [one[0] for one in words] == ["kafka-topics.sh"] * 6 + ["kafka-acls.sh"] * 2
    assert all(one[1:3] == ["--bootstrap-server", "a:9092,b:9092"] for one in words)
    assert "User:CN=once gate" in words[-1]
    assert not any("--command-config" in one for one in words)


def test_topics_of_users_get_rights_of_their_own_and_are_not_made() -> None:
    lines = plan("--format", "commands", "--topic", "flights")[1].splitlines()
    (line,) = (line for line in lines if "flights" in line)
    assert line.startswith("kafka-acls.sh")
    assert line.endswith("--topic flights --resource-pattern-type literal")
    assert line.count("--operation ") == 3


def test_who_writes_past_the_gateway_gets_rights_of_his_own_and_no_others() -> None:
    answer = json.loads(plan("--format", "json", "--topic", "flights", "--writer", "User:spark")[1])
    assert answer["writer"] == "User:spark"
    assert [(one["resource"], one["name"], one["alone"], one["operations"]) for one in answer["writers_rights"]] == [
        ("transactional-id", "once.default/1/direct/", False, ["Describe", "Write"]),
        ("topic", "once.default.direct", True, ["Describe", "Write"]),
        ("topic", "flights", True, ["Describe", "Write"]),
    ]
    lines = plan("--format", "commands", "--topic", "flights", "--writer", "User:spark")[1].splitlines()
    assert sum("User:spark" in line for line in lines) == 3
    assert "rights of User:spark" in plan("--writer", "User:spark")[1]
    status, _, output = plan("--writer", "User:spark", "--check")
    assert (status, "leave --writer out" in output) == (1, True)


def test_brokers_that_ask_who_connects_are_reached_by_a_file_of_the_operators(tmp_path: Path) -> None:
    (password := tmp_path / "password").write_text("secret")
    sasl = f"security_protocol=SASL_PLAINTEXT&sasl_mechanism=PLAIN&sasl_username=gate&sasl_password_file={password}"
    out = plan("--format", "commands", url=f"{URL}&{sasl}")[1]
    assert out.count("--command-config admin.properties") == 8
    assert "--allow-principal User:gate" in out
    assert "secret" not in out


@pytest.mark.parametrize(
    ("url", "options", "words"),
    [
        ("log:data", (), "log:data is no ledger on Kafka"),
        ("kafka://a:9092/once", (), "openssl rand -hex 32"),
        (URL, ("--check", "--format", "commands"), "take --format text or json"),
        (URL, ("--namespace", "UP"), "namespace 'UP': lower-case letters"),
        (f"{URL}&security_protocol=SSL&ssl_certfile=%", (), "ssl_certfile"),
    ],
)
def test_an_impossible_plan_is_refused_in_one_line(url: str, options: tuple[str, ...], words: str) -> None:
    status, out, err = plan(*options, url=url)
    assert (status, out) == (1, "")
    assert words in err
    assert err.count("\n") == 1
