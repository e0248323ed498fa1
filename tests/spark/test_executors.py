"""Causes that only executors show: a stage that reruns for lost shuffle files, and speculation in a stream."""

from pathlib import Path

import pytest

from demo.matrix.runs import Run
from demo.matrix.supervisor import Counted, Runs

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.slow, pytest.mark.timeout(600)]


def struck(folder: Path, fault: str, plan: str) -> dict[str, Counted]:
    """Runs each way to write once, with the fault in the second of three batches."""
    ways = ("plain", "staged", "ids")
    runs = [Run(fault, way, plan, 0, 1, str(folder / way)) for way in ways]
    return {one.run.way: one for one in Runs(runs, folder, lambda _: None).go()}


def is_once(counted: Counted) -> bool:
    return counted.hit and (counted.duplicated, counted.lost) == (0, 0)


def causes_are(counted: Counted, cause: str) -> bool:
    """Returns whether rows were repeated for `cause`; a busy cluster may also retry a task within one stage attempt."""
    return cause in counted.causes and set(counted.causes) <= {cause, "task_retry"}


def test_a_stage_that_runs_again_for_lost_shuffle_files_writes_each_row_once(tmp_path: Path) -> None:
    """On `local-cluster`, a task writes, and the shuffle files that other tasks of its stage need are deleted. Spark
    reruns the stage, and that task too, while its first attempt still runs and succeeds."""
    found = struck(tmp_path, "lost_shuffle", "repartition")
    assert is_once(found["staged"])
    assert is_once(found["ids"])
    assert found["plain"].hit
    assert found["plain"].duplicated > 0, "the baseline: the fault does bite"
    assert causes_are(found["ids"], "stage_retry")
    assert causes_are(found["staged"], "stage_retry")


def test_two_attempts_of_a_task_at_once_write_each_count_of_a_stream_once(tmp_path: Path) -> None:
    """On a standalone master with two workers, speculation starts a second attempt, and both write all rows."""
    found = struck(tmp_path, "speculation", "count")
    assert is_once(found["staged"])
    assert is_once(found["ids"])
    assert found["plain"].hit
    assert found["plain"].duplicated > 0, "the baseline: the fault does bite"
    assert causes_are(found["ids"], "speculation")
    assert causes_are(found["staged"], "speculation")
