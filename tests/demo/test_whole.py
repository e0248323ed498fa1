"""The demo's own processes on a real Spark and a real gateway."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from demo import compare, data
from demo.events import Event, Events, of_kind
from demo.faults import FAULTS, state
from demo.plan import EMBEDDED
from demo.processes import ROOT, GatewayProcess
from demo.supervisor import Run

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.slow, pytest.mark.timeout(900)]
START_S_MAX = 200


@pytest.mark.parametrize("name", ["staged", "ids"])
def test_a_run_meets_all_six_faults_and_writes_every_flight_once(tmp_path: Path, name: str) -> None:
    told: list[tuple[int, list[Event]]] = []
    logs = tmp_path / "logs"
    logs.mkdir()
    flights = data.cut(tmp_path / "data", salted=EMBEDDED.way(name).salted)
    with GatewayProcess(tmp_path / "gateway", logs / "gateway.log") as gateway:
        run = Run(EMBEDDED, name, tmp_path / name, logs, flights, gateway, lambda *news: told.append(news))
        ran = run.go()
        found = compare.compare(ran, compare.expected(), compare.written(ran, gateway))
    assert {fault.name: state(fault, ran.events) for fault in FAULTS} == {fault.name: "hit" for fault in FAULTS}
    assert (found.rows_in, found.rows_out) == (data.ROWS + flights.salted_rows, data.ROWS)
    assert (found.duplicated, found.lost, found.strange) == (0, 0, 0)
    assert told[-1][0] == data.WHOLE.batches


def started_below(folder: Path) -> list[psutil.Process]:
    """Returns every living process with a path in `folder` among its arguments."""
    return [
        process
        for process in psutil.process_iter(["cmdline", "status"])
        if any(str(folder) in word for word in process.info["cmdline"] or [])
        and process.info["status"] != psutil.STATUS_ZOMBIE
    ]


@pytest.mark.parametrize(("form", "first"), [((), "plain"), (("--kafka", "--short"), "kafka")])
def test_a_demo_that_is_interrupted_leaves_no_process_and_no_temporary_file_behind(
    tmp_path: Path, form: tuple[str, ...], first: str
) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-m", "demo", *form, "--out", str(out)]
    with (tmp_path / "said").open("wb") as said:
        demo = subprocess.Popen(command, cwd=ROOT, stdout=said, stderr=said)
    events, end = Events(out / first / "events.jsonl"), time.monotonic() + START_S_MAX
    while not of_kind(events.all(), "attempt"):
        assert demo.poll() is None, (tmp_path / "said").read_text()
        assert time.monotonic() < end
        time.sleep(0.1)
    assert len(started_below(out)) >= 3
    assert list((out / "tmp").glob("spark-*")), "Java's temporary files are here"
    demo.send_signal(signal.SIGTERM)
    assert demo.wait(60) == 130
    assert started_below(out) == []
    assert not (out / "tmp").exists()
