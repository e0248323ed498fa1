"""An interrupted run continues where it stopped, and gives the answer of an uninterrupted one."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from oncegate.testing import LocalGateway
from oncegate.verifier import runs
from oncegate.verifier.sources import inputs
from oncegate.verifier.sources.gateway import GatewayClient
from tests.support.verified import (
    ROWS,
    Where,
    arguments_for,
    run,
    verify,
    write_by_id,
    write_input,
    write_past_the_ledger,
    wrong,
)

BATCH = 100


class Interrupted(Exception):
    """Raised where a process would be killed."""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with LocalGateway("memory:") as gateway:
        yield gateway.url


@pytest.fixture
def input_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Uses small batches and saves the state after each, so that a run can be interrupted and continued."""
    monkeypatch.setattr(inputs, "BATCH_ROWS", BATCH)
    monkeypatch.setattr("oncegate.verifier.sources.outputs.BATCH_ROWS", BATCH)
    monkeypatch.setattr(runs, "BUFFERED_ROWS", BATCH)
    return write_input(tmp_path / "orders.parquet")


def interrupt_at(monkeypatch: pytest.MonkeyPatch, name: str, call: int, after: bool = False) -> list[Any]:
    """Makes a gateway's method fail at its n-th call, before or after it took effect; returns the calls so far."""
    good: Callable[..., Any] = getattr(GatewayClient, name)
    calls: list[Any] = []

    def method(self: GatewayClient, *arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) == call and not after:
            raise Interrupted
        answer = good(self, *arguments)
        if len(calls) == call:
            raise Interrupted
        return answer

    monkeypatch.setattr(GatewayClient, name, method)
    return calls


def place(url: str, namespace: str) -> Where:
    where = Where(url, namespace)
    with where.client() as client:
        client.create_namespace()
    write_by_id(where, *range(ROWS - 20))
    write_past_the_ledger(where, 3, 5_000)
    return where


def interrupted(where: Where, input_file: Path, *more: str) -> None:
    with pytest.raises(Interrupted):
        run(*arguments_for(where, input_file), "--json", *more)


@pytest.mark.parametrize(("method", "call"), [("look_up", 6), ("fetch", 6)])
def test_rows_that_were_read_are_not_read_again(
    url: str, input_file: Path, method: str, call: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = place(url, f"read-{method}".replace("_", "-"))
    with monkeypatch.context() as patch:
        interrupt_at(patch, method, call)
        interrupted(where, input_file)
    calls = interrupt_at(monkeypatch, method, 0)
    status, report = verify(where, input_file)
    rest = len([one for one in calls if method != "fetch" or one[3] > 1])
    # 1,000 rows in groups of 300 and batches of 100; the output has 982, in batches of 100.
    assert rest == 10 - (call - 1)
    assert (status, wrong(report)) == (1, {"not_written": 20, "doubled": 1, "foreign": 1})
    assert (report["input_rows"], report["output_rows"]) == (ROWS, ROWS - 20 + 2)


def test_a_run_that_is_interrupted_before_its_first_step_leaves_no_folder(
    url: str, input_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = place(url, "unbegun")
    interrupt_at(monkeypatch, "look_up", 1)
    interrupted(where, input_file)
    assert [path.name for path in input_file.parent.iterdir()] == [input_file.name]


@pytest.mark.parametrize("after", [False, True], ids=["before it took effect", "after it took effect"])
def test_a_repair_that_was_interrupted_writes_each_row_once(
    url: str, input_file: Path, after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = place(url, f"repair-{after}".lower())
    write_input(input_file, range(ROWS + 300))
    with monkeypatch.context() as patch:
        interrupt_at(patch, "produce", 3, after)
        interrupted(where, input_file, "--repair")
    status, report = verify(where, input_file, "--repair")
    assert (status, report["repaired"]) == (1, {"written": 320, "refused": 0, "held": 0})
    _, report = verify(where, input_file)
    assert wrong(report) == {"doubled": 1, "foreign": 1}


def test_a_state_of_another_question_is_refused_with_what_differs(
    url: str, input_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = place(url, "other")
    with monkeypatch.context() as patch:
        interrupt_at(patch, "look_up", 2)
        interrupted(where, input_file)
    write_input(input_file, range(ROWS + 1))
    status, _, err = run(*arguments_for(where, input_file), "--json")
    assert status == 1
    assert "input_bytes" in err
    assert "remove it" in err


def test_a_folder_that_was_changed_is_refused(url: str, input_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where = place(url, "changed")
    with monkeypatch.context() as patch:
        interrupt_at(patch, "fetch", 3)
        interrupted(where, input_file)
    (input_file.parent / "state" / "output.rows").write_bytes(b"")
    status, _, err = run(*arguments_for(where, input_file), "--json")
    assert (status, "start over" in err) == (1, True), err


def test_two_runs_do_not_share_a_folder(url: str, input_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where, inside = place(url, "shared"), list[tuple[int, str, str]]()
    good = GatewayClient.look_up

    def look_up(self: GatewayClient, *arguments: Any) -> Any:
        monkeypatch.setattr(GatewayClient, "look_up", good)
        inside.append(run(*arguments_for(where, input_file), "--json"))
        return good(self, *arguments)

    monkeypatch.setattr(GatewayClient, "look_up", look_up)
    assert verify(where, input_file)[0] == 1
    assert inside[0][0] == 1
    assert "another process uses" in inside[0][2]
