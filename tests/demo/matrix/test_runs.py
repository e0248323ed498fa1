"""The runs drawn for a matrix, and when a fault counts as hit."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from demo.matrix.plans import PLANS, Input
from demo.matrix.runs import FAULTS, WAYS, Run, hit, runs_of


def test_every_way_gets_the_same_jobs_struck_in_the_same_batches(tmp_path: Path) -> None:
    runs = list(runs_of("worker_kill", WAYS, 4, 7, tmp_path))
    by_way = [[(run.plan, run.batch) for run in runs if run.way == way] for way in WAYS]
    assert by_way == [by_way[0]] * len(WAYS)
    assert len({run.name for run in runs}) == len(runs) == 4 * len(WAYS)


def test_a_seed_draws_the_same_again_and_one_run_of_each_fault_sees_every_job(tmp_path: Path) -> None:
    drawn = [run for fault in FAULTS for run in runs_of(fault, ("ids",), 1, 3, tmp_path)]
    assert drawn == [run for fault in FAULTS for run in runs_of(fault, ("ids",), 1, 3, tmp_path)]
    assert {run.plan for run in drawn} == set(PLANS)


@pytest.mark.parametrize("plan", PLANS.values(), ids=lambda plan: plan.name)
def test_every_output_of_a_job_has_an_id_of_its_own(tmp_path: Path, plan: Any) -> None:
    expected = plan.expected(Input(tmp_path))
    assert expected == Counter(dict.fromkeys(expected, 1))
    assert len(expected) >= 20


def run(fault: str) -> Run:
    return Run(fault, "staged", "count", 0, 1, "/nowhere")


def wrote(t: float, token: str, **more: Any) -> dict[str, Any]:
    return {"kind": "wrote", "t": t, "batch": 1, "partition": 2, "attempt": 0, "token": token, "rows": 5, **more}


INJECTED = {"kind": "injected", "t": 2.0, "batch": 1, "partition": 2, "token": "a"}


@pytest.mark.parametrize(
    ("again", "is_hit"),
    [
        ([], False),
        ([wrote(3, "b", attempt=1)], True),
        ([wrote(3, "b", attempt=1, partition=3)], False),
        ([wrote(3, "b", attempt=1, batch=2)], False),
        ([wrote(3, "b", attempt=1, rows=0)], False),
        ([wrote(3, "a")], False),
        ([wrote(1, "b")], False),
    ],
)
def test_a_task_was_hit_when_another_attempt_has_written_its_partition_again(again: Any, is_hit: bool) -> None:
    assert hit(run("task_error"), [wrote(1, "a"), INJECTED, *again]) == is_hit
    assert not hit(run("task_error"), [wrote(1, "a"), *again])


def test_a_retry_of_the_same_stage_is_no_second_run_of_it() -> None:
    assert not hit(run("lost_shuffle"), [INJECTED, wrote(3, "b", attempt=1)])
    assert hit(run("lost_shuffle"), [INJECTED, wrote(3, "b")])


def test_the_network_was_hit_when_the_request_came_again() -> None:
    injected = {"kind": "injected", "t": 2.0, "request": "r"}
    assert not hit(run("reply_lost"), [injected, wrote(3, "b")])
    assert hit(run("reply_lost"), [injected, {"kind": "repeat_seen", "t": 3.0, "request": "r"}])
