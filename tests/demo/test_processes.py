"""Events from several processes, and processes ended by pid."""

import contextlib
import multiprocessing
import subprocess
import sys
import time
from pathlib import Path

import psutil

from demo.events import Events, of_kind
from demo.processes import kill_all, temporary_files

FAMILY = """
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)"])
time.sleep(600)
"""


def _say_many(path: Path, who: int) -> None:
    for n in range(200):
        Events(path).say("said", who=who, n=n)


def test_lines_of_parallel_processes_never_mix(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    spawn = multiprocessing.get_context("spawn")
    tellers = [spawn.Process(target=_say_many, args=(path, who)) for who in range(3)]
    for teller in tellers:
        teller.start()
    for teller in tellers:
        teller.join()
    events = Events(path).all()
    assert all([e["n"] for e in of_kind(events, "said", who=who)] == list(range(200)) for who in range(3))


def test_a_half_written_line_is_not_read_yet(tmp_path: Path) -> None:
    events = Events(tmp_path / "events.jsonl")
    assert events.all() == []
    events.say("whole")
    with events.path.open("a") as file:
        file.write('{"kind": "half')
    assert [event["kind"] for event in events.all()] == ["whole"]


def test_what_happens_once_happens_once_also_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    assert [Events(path).first_time("a"), Events(path).first_time("a"), Events(path).first_time("b")] == [
        True,
        False,
        True,
    ]


def test_a_killed_process_takes_what_it_started_with_it() -> None:
    parent = subprocess.Popen([sys.executable, "-c", FAMILY], stdout=subprocess.PIPE, start_new_session=True)
    assert parent.stdout is not None
    with parent.stdout:
        assert parent.stdout.readline() == b"up\n"
        (child,) = psutil.Process(parent.pid).children()
        kill_all(parent, first=child.pid)
        assert parent.returncode == -9
        end = time.monotonic() + 10
        with contextlib.suppress(psutil.NoSuchProcess):
            while child.status() != psutil.STATUS_ZOMBIE:
                assert time.monotonic() < end
                time.sleep(0.01)


def test_what_outlived_its_parent_is_found_and_killed() -> None:
    parent = subprocess.Popen([sys.executable, "-c", FAMILY], stdout=subprocess.PIPE, start_new_session=True)
    assert parent.stdout is not None
    with parent.stdout:
        assert parent.stdout.readline() == b"up\n"
        (child,) = psutil.Process(parent.pid).children()
        parent.kill()
        parent.wait()
        kill_all(parent)
        assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


def test_events_said_later_are_added_to_those_already_read(tmp_path: Path) -> None:
    events = Events(tmp_path / "events.jsonl")
    for n in range(3):
        events.say("said", n=n)
        assert [event["n"] for event in events.all()] == list(range(n + 1))


def test_temporary_folders_of_a_child_are_removed_with_the_demo(tmp_path: Path) -> None:
    makes = [sys.executable, "-c", "import tempfile; print(tempfile.mkdtemp())"]
    with temporary_files(tmp_path / "tmp"):
        made = Path(subprocess.run(makes, capture_output=True, text=True, check=True).stdout.strip())
        assert made.parent == tmp_path / "tmp"
        assert made.exists()
    assert list(tmp_path.iterdir()) == []
    after = subprocess.run(makes, capture_output=True, text=True, check=True).stdout.strip()
    Path(after).rmdir()
    assert not after.startswith(str(tmp_path))
