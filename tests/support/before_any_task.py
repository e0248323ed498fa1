"""Checks that a write is refused on Spark's driver, before any task of it."""

import re
from typing import Any

import pytest

from tests.spark.jobs.job import Job


def found_on_the_driver(job: Job, told: str, rows: Any = None, **options: str) -> None:
    """Both ways to write raise it, and no task of them was started."""
    made = job.rows(1) if rows is None else rows
    seen = job.spark.sparkContext.statusTracker()
    job.spark.sparkContext.setJobGroup(told, "none of it starts")
    try:
        with pytest.raises(Exception, match=f"(?s){told}") as raised:
            job.write(made, **options)
        assert seen.getJobIdsForGroup(told) == []
    finally:
        job.spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)
    assert not re.search("TaskFailed|Lost task", str(raised.value))
