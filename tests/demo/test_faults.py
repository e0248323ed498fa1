"""A fault counts as hit only when the run's events show that the system met it."""

import pytest

from demo.events import Event
from demo.faults import BY_NAME, FAULTS, state


def attempt(name: str, partition: int = 0, attempt: int = 0, start: int = 1) -> Event:
    where = {"batch": BY_NAME[name].batch, "partition": partition, "attempt": attempt, "start": start}
    return {"kind": "attempt", **where}


def wrote(name: str, rows: int, start: int) -> Event:
    return {**attempt(name, start=start), "kind": "wrote", "rows": rows}


def injected(name: str, **fields: object) -> Event:
    return {"kind": "injected", "fault": name, **fields}


def committed(name: str) -> Event:
    return {"kind": "committed", "batch": BY_NAME[name].batch}


def state_after(name: str, *events: Event) -> str:
    return state(BY_NAME[name], list(events))


def test_every_fault_has_a_batch_of_its_own_and_the_first_batch_is_clean() -> None:
    batches = [fault.batch for fault in FAULTS]
    assert len(set(batches)) == len(batches)
    assert 0 not in batches


def test_a_fault_that_was_never_injected_waits_even_if_its_traces_are_there() -> None:
    assert state_after("task_error", attempt("task_error", attempt=1)) == "waiting"


@pytest.mark.parametrize("name", ["task_error", "worker_kill"])
def test_a_failed_task_counts_when_its_own_partition_ran_again(name: str) -> None:
    begun = [attempt(name), attempt(name, partition=1), injected(name)]
    assert state_after(name, *begun) == "injected"
    assert state_after(name, *begun, attempt(name, partition=1, attempt=1)) == "injected"
    assert state_after(name, *begun, attempt(name, attempt=1)) == "hit"


def test_a_killed_driver_counts_when_the_replay_had_another_number_of_tasks() -> None:
    name = "driver_kill"
    first = [attempt(name), attempt(name, partition=1), injected(name, commit_log_entry=False)]
    same = [attempt(name, start=2), attempt(name, partition=1, start=2), committed(name)]
    assert state_after(name, *first, attempt(name, start=2)) == "injected"
    assert state_after(name, *first, *same) == "injected"
    assert state_after(name, *first, attempt(name, start=2), committed(name)) == "hit"


def test_a_driver_killed_after_its_commit_log_entry_was_written_does_not_count() -> None:
    name = "driver_kill"
    first = [attempt(name), attempt(name, partition=1), injected(name, commit_log_entry=True)]
    assert state_after(name, *first, attempt(name, start=2), committed(name)) == "injected"


def test_a_replay_counts_when_a_later_start_wrote_rows_of_that_batch() -> None:
    name = "batch_replay"
    first = [wrote(name, 10, start=2), injected(name, start=2)]
    assert state_after(name, *first) == "injected"
    assert state_after(name, *first, wrote(name, 0, start=3)) == "injected"
    assert state_after(name, *first, wrote(name, 10, start=3)) == "hit"


def test_a_killed_gateway_counts_when_no_byte_was_forwarded_and_it_died_of_it() -> None:
    name, again = "gateway_kill", {"kind": "gateway_serves_again"}
    assert state_after(name, injected(name, answer_bytes_forwarded=0, exit_status=-9)) == "injected"
    assert state_after(name, injected(name, answer_bytes_forwarded=0, exit_status=0), again) == "injected"
    assert state_after(name, injected(name, answer_bytes_forwarded=1, exit_status=-9), again) == "injected"
    assert state_after(name, injected(name, answer_bytes_forwarded=0, exit_status=-9), again) == "hit"


def test_a_lost_reply_counts_when_that_very_request_came_again() -> None:
    name = "reply_lost"
    assert state_after(name, injected(name, request="a"), {"kind": "repeat_seen", "request": "b"}) == "injected"
    assert state_after(name, injected(name, request="a"), {"kind": "repeat_seen", "request": "a"}) == "hit"


def test_a_killed_broker_counts_when_rows_were_handed_over_while_it_was_dead() -> None:
    name = "broker_kill"
    dead, again = injected(name, t=2.0, answers=False), {"kind": "broker_serves_again", "t": 4.0}
    while_dead, late = ({**attempt(name), "kind": "handed_over", "t": t} for t in (3.0, 5.0))
    assert state_after(name, dead, while_dead, committed(name)) == "injected"
    assert state_after(name, dead, again, late, committed(name)) == "injected"
    assert state_after(name, dead, while_dead, again) == "injected"
    assert state_after(name, {**dead, "answers": True}, while_dead, again, committed(name)) == "injected"
    assert state_after(name, dead, while_dead, again, committed(name)) == "hit"


def test_a_killed_server_counts_when_the_lost_request_came_again_while_it_was_dead() -> None:
    name, request = "server_kill", {"request": "a"}
    dead, again = injected(name, t=2.0, exit_status=-9, **request), {"kind": "server_serves_again", "t": 6.0}
    done = committed(name)
    asked = {"kind": "repeat_seen", "t": 3.0, **request}
    assert state_after(name, dead, again, done) == "injected"
    assert state_after(name, dead, asked, again) == "injected"
    assert state_after(name, dead, {**asked, "t": 7.0}, again, done) == "injected"
    assert state_after(name, dead, {**asked, "request": "b"}, again, done) == "injected"
    assert state_after(name, {**dead, "exit_status": 0}, asked, again, done) == "injected"
    assert state_after(name, dead, asked, again, done) == "hit"


def test_a_takeover_counts_when_the_standby_serves_after_the_owner_was_killed() -> None:
    name, again = "standby_takeover", {"kind": "gateway_serves_again", "standby": True}
    assert state_after(name, injected(name, stood_by=True, exit_status=-9)) == "injected"
    assert state_after(name, injected(name, stood_by=False, exit_status=-9), again) == "injected"
    assert state_after(name, injected(name, stood_by=True, exit_status=0), again) == "injected"
    assert state_after(name, injected(name, stood_by=True, exit_status=-9), {**again, "standby": False}) == "injected"
    assert state_after(name, injected(name, stood_by=True, exit_status=-9), again) == "hit"
