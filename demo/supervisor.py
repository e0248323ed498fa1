"""Supervises one run: starts the job, injects six faults, and restarts it until its last row is written."""

import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from demo import processes
from demo.data import Flights, reveal
from demo.events import Event, Events, of_kind
from demo.faults import GATEWAY_KILL_STRIKES, REPLY_LOST_STRIKES
from demo.hooks import environment
from demo.plan import Plan
from demo.processes import GatewayProcess
from demo.proxy import Proxy, Trap

TOPIC = "departures"
CORES, CORES_AFTER_DRIVER_KILL = 2, 1
STARTS_MAX = 8
_TICK_S = 0.2
_JOB_S_MAX = 300

Tell = Callable[[int, list[Event]], None]


class RunFailed(Exception):
    """Raised if the job does not finish; its text names the log to read."""


@dataclass(frozen=True)
class Ran:
    """The outcome of a run: its files, its duration, the gateway's counters, and the number of copies in its input."""

    name: str
    folder: Path
    began_s: float
    seconds: float
    takeover_rows: int
    events: list[Event]
    salted_rows: int = 0


class Run:
    """A run of one way of a plan.

    `tell` is called several times a second with the number of committed batches and the events so far.
    """

    module = "demo.job"  # the program that is run

    def __init__(
        self, plan: Plan, name: str, folder: Path, logs: Path, flights: Flights, gateway: GatewayProcess, tell: Tell
    ) -> None:
        self._plan, self._way = plan, plan.way(name)
        self._name, self._folder, self._logs = name, folder, logs
        self._flights, self._gateway, self._tell = flights, gateway, tell
        self._checkpoint = folder / "checkpoint"
        self._cores = CORES
        self._starts = 0
        self._committed: set[int] = set()
        self._sampled_rows = 0
        folder.mkdir(parents=True)
        self._events = Events(folder / "events.jsonl")

    def go(self) -> Ran:
        """Runs the job until every flight is written. Raises RunFailed."""
        began_s = time.monotonic()
        if self._way.gateway:
            self._gateway.ask("PUT", f"/namespaces/{self._name}")
        with Proxy(self._gateway.port) as self._proxy:
            for trap in self._traps():
                self._proxy.arm(trap)
            begin, replay = 0, self._plan.fault("batch_replay")
            if replay is not None:
                begin = replay.batch + 1
                self._write(range(begin))
                self._forget_last_batch()
            self._write(range(begin, self._plan.size.batches))
        seconds = time.monotonic() - began_s
        self._sample()
        events, salted_rows = self._events.all(), self._flights.salted_rows
        return Ran(self._name, self._folder, began_s, seconds, self._takeovers(), events, salted_rows)

    def _takeovers(self) -> int:
        if not self._way.gateway:
            return 0
        return int(self._gateway.get(f"/namespaces/{self._name}")["counters"]["takeovers"])

    def _write(self, batches: range) -> None:
        """Makes the parts of the batches arrive, and starts the job until it succeeds: all of them are written."""
        reveal(tuple(part for batch in batches for part in self._flights.of_batch(batch)), self._folder / "inbox")
        while self._start_job() != 0:
            if self._starts == STARTS_MAX:
                log = self._job_log()
                raise RunFailed(f"{self._name}: started {self._starts} times; {log} ends:\n{processes.tail(log)}")

    def _job_log(self) -> Path:
        return self._logs / f"{self._name}-job-{self._starts}.log"

    def _start_job(self) -> int:
        """Runs the job once; returns its exit status."""
        self._starts += 1
        cores, self._cores = self._cores, CORES
        job = processes.start(
            self.module,
            *("--write", self._name, "--cores", str(cores), "--url", f"http://{processes.HOST}:{self._proxy.port}"),
            *("--folder", str(self._folder), "--data", str(self._flights.airlines.parent), *self._more_arguments()),
            log=self._job_log(),
            env=environment(self._plan, self._folder, self._starts),
        )
        try:
            end = time.monotonic() + _JOB_S_MAX
            while job.poll() is None:
                if time.monotonic() > end:
                    raise RunFailed(f"{self._name}: no end after {_JOB_S_MAX} s; see {self._job_log()}")
                self._tick(job)
                time.sleep(_TICK_S)
        finally:
            processes.kill_all(job)
        self._look()
        return job.returncode

    def _more_arguments(self) -> list[str]:
        return []

    def _tick(self, job: subprocess.Popen[bytes]) -> None:
        events = self._look()
        if of_kind(events, "blocked") and not of_kind(events, "injected", fault="driver_kill"):
            self._kill_driver(job, events)
        if not self._gateway.alive:
            self._revive()
        self._sample()

    def _revive(self) -> None:
        """Restarts the gateway after it was killed."""
        self._gateway.start()
        self._proxy.upstream_port = self._gateway.port
        self._events.say("gateway_serves_again")

    def _look(self) -> list[Event]:
        """Records newly committed batches and reports the progress; returns the events so far."""
        for batch in sorted(self._commit_log() - self._committed):
            self._events.say("committed", batch=batch)
            self._committed.add(batch)
        events = self._events.all()
        self._tell(len(self._committed), events)
        return events

    def _commit_log(self) -> set[int]:
        return {int(entry.name) for entry in (self._checkpoint / "commits").glob("*") if entry.name.isdigit()}

    def _sample(self) -> None:
        """Records the number of rows in the topic; skips it if there is no topic or the gateway does not answer."""
        if self._name == "claim":
            return  # its rows are in files, and each write is an event
        try:
            topic = self._gateway.get(f"/namespaces/{self._name}/topics/{TOPIC}")
        except OSError:
            return
        rows = topic["high_offsets"][0]
        if rows != self._sampled_rows:
            self._events.say("sampled", rows=rows)
            self._sampled_rows = rows

    def _kill_driver(self, job: subprocess.Popen[bytes], events: list[Event]) -> None:
        """Kills the JVM, then its Python parent; the next start has a different number of cores."""
        jvm = of_kind(events, "driver")[-1]["jvm"]
        processes.kill_all(job, first=jvm)
        batch = of_kind(events, "blocked")[0]["batch"]
        self._events.say("injected", fault="driver_kill", commit_log_entry=batch in self._commit_log(), jvm=jvm)
        self._cores = CORES_AFTER_DRIVER_KILL

    def _forget_last_batch(self) -> None:
        """Removes the last batch from Spark's commit log, as if it had crashed after the sink's commit."""
        batch = max(self._commit_log())
        commits = self._checkpoint / "commits"
        for entry in (commits / str(batch), commits / f".{batch}.crc"):
            entry.unlink()
        self._committed.discard(batch)
        self._events.say("injected", fault="batch_replay", batch=batch, start=self._starts)

    def _traps(self) -> list[Trap]:
        """Returns the traps for the proxy; each opens once its batch has an entry in Spark's offset log."""

        def kill_gateway(request: str) -> None:
            status = self._gateway.kill()
            struck = {"request": request, "answer_bytes_forwarded": 0, "exit_status": status}
            self._events.say("injected", fault="gateway_kill", **struck)

        def lost(request: str) -> None:
            self._events.say("injected", fault="reply_lost", request=request)

        return [
            *self._trap("gateway_kill", GATEWAY_KILL_STRIKES, kill_gateway),
            *self._trap("reply_lost", REPLY_LOST_STRIKES, lost),
        ]

    def _trap(self, fault: str, strikes: Mapping[str, str], struck: Callable[[str], None]) -> list[Trap]:
        """Returns the trap of a fault; empty if the fault does not strike this way."""

        def repeated(request: str) -> None:
            self._events.say("repeat_seen", request=request)

        met = [fault_plan for fault_plan in self._plan.faults_of(self._name) if fault_plan.name == fault]
        begun = [(self._checkpoint / "offsets" / str(fault_plan.batch)).exists for fault_plan in met]
        return [Trap(strikes[self._name], ready, struck, repeated) for ready in begun]
