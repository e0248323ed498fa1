"""Checks that a write is refused on Spark's driver, before any task of it."""

import re
from typing import Any

import pytest

from tests.spark.jobs.job import Job


def refused_on_driver(job: Job, told: str, rows: Any = None, **options: str) -> None:
    """Checks that the write raises on the driver and that none of its tasks was started."""
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
