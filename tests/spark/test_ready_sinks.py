"""write=claim into the ready sinks with the worker killed after its first write: each row is stored once, not twice."""

import sqlite3
from collections import Counter
from pathlib import Path

import pytest

from tests.spark.jobs.job import Job
from tests.support.payments_server import PaymentsServer

pytestmark = pytest.mark.spark
NUMBERS = range(25)


def run(job: Job, factory: str, place: str) -> None:
    """Runs the stream in one task, and again as a replay of its batch."""
    job.add_file(*NUMBERS)
    options = job.claim_options(
        sink=f"tests.spark.jobs.ready_sinks:{factory}", place=place, faultFolder=str(job.folder)
    )
    job.run(job.stream().coalesce(1), **options)
    assert (job.folder / "died").exists()
    assert job.counters()["takeovers"] > 0, "the dead attempt held what it wrote"
    job.forget_last_commit()
    job.run(job.stream().coalesce(1), **options)


def test_files_of_a_killed_task_are_found_and_none_is_replaced(job: Job, tmp_path: Path) -> None:
    run(job, "open_folder", str(tmp_path / "files"))
    files = {path.name: path.read_text() for path in (tmp_path / "files").iterdir() if not path.name.startswith(".")}
    assert files == {f"id-{n}": str(n) for n in NUMBERS}
    assert "rows=25 written=15 suppressed=10 takeovers=0" in job.log()


def test_requests_of_a_killed_task_come_again_under_their_key(job: Job) -> None:
    with PaymentsServer() as server:
        run(job, "open_payments", server.url)
    assert server.paid == {str(n): 1 for n in NUMBERS}
    assert len(server.keys) == len(NUMBERS) + 1, "the record in doubt was sent again"
    assert None not in server.keys


def test_rows_of_a_killed_task_are_found_in_the_database(job: Job, tmp_path: Path) -> None:
    path = tmp_path / "rows.db"
    with sqlite3.connect(path) as made:
        made.execute("CREATE TABLE numbers (n integer)")
        made.execute("CREATE TABLE oncegate_ids (id varchar(1024) PRIMARY KEY)")
    made.close()
    run(job, "open_database", str(path))
    database = sqlite3.connect(path)
    found = Counter(n for (n,) in database.execute("SELECT n FROM numbers"))
    database.close()
    assert found == dict.fromkeys(NUMBERS, 1)
