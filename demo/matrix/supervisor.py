"""Supervises the runs on one kind of Spark: starts it, a gateway and a proxy; kills processes; counts the output."""

import json
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from demo import processes
from demo.events import Events, of_kind
from demo.matrix.cluster import Cluster
from demo.matrix.driver import TOPIC
from demo.matrix.plans import PLANS
from demo.matrix.runs import FAULTS, Run, hit
from demo.processes import GatewayProcess
from demo.proxy import Proxy, Trap
from demo.supervisor import RunFailed
from oncegate_spark import Gateway
from oncegate_spark.spark.sinks import read_files

LOCAL = {"local": "local[2,4]", "local-cluster": "local-cluster[2,1,512]"}
_TICK_S = 0.2
_RUN_S_MAX = 240  # since the last run finished
# Prefix of the gateway's counters of duplicates by cause.
_CAUSE = "duplicates_"


@dataclass(frozen=True)
class Counted:
    """The result of a run, in ids.

    duplicated: copies beyond the first, and ids that were not expected.
    causes: the gateway's counters of dropped duplicates by cause, without those that are zero.
    """

    run: Run
    hit: bool
    duplicated: int
    lost: int
    takeovers: int
    causes: dict[str, int] = field(default_factory=dict)


class Runs:
    """Runs whose faults need the same kind of Spark, in their own folder.

    One session performs them; a killed session is restarted. `tell` is called with the number of finished runs.
    """

    def __init__(self, runs: Sequence[Run], folder: Path, tell: Callable[[int], None]) -> None:
        self._runs, self._folder, self._tell = runs, folder, tell
        self._where = FAULTS[runs[0].fault].where
        self._events = {run: Events(Path(run.folder) / "events.jsonl") for run in runs}
        self._log = folder / "driver.log"

    def go(self) -> list[Counted]:
        """Performs the runs until all have finished. Raises RunFailed, which names the log to read."""
        for run in self._runs:
            Path(run.folder).mkdir(parents=True)
            run.input.write()
        (self._folder / "runs.json").write_text(json.dumps([asdict(run) for run in self._runs]))
        with GatewayProcess(self._folder / "gateway", self._folder / "gateway.log") as self._gateway:
            with Proxy(self._gateway.port) as self._proxy, self._master() as master:
                for run in self._runs:
                    self._gateway.ask("PUT", f"/namespaces/{run.name}")
                    self._arm(run)
                self._drive(master)
            return [self._counted(run) for run in self._runs]

    @contextmanager
    def _master(self) -> Iterator[str]:
        if self._where in LOCAL:
            yield LOCAL[self._where]
            return
        with Cluster(self._folder, self._folder) as cluster:
            yield cluster.master

    def _drive(self, master: str) -> None:
        """Starts the program until all runs have finished, at most three times more often than it is killed."""
        starts_max = 3 + sum(run.fault == "driver_kill" for run in self._runs)
        for _ in range(starts_max):
            url = f"http://{processes.HOST}:{self._proxy.port}"
            program = processes.start("demo.matrix.driver", str(self._folder), url, master, log=self._log)
            try:
                self._watch(program)
            finally:
                processes.kill_all(program)
            if self._finished() == len(self._runs):
                return
        raise RunFailed(f"{self._where}: started {starts_max} times; {self._log} ends:\n{processes.tail(self._log)}")

    def _watch(self, program: subprocess.Popen[bytes]) -> None:
        """Waits until the program ends; kills it if a run's fault is due."""
        end, finished = time.monotonic() + _RUN_S_MAX, self._finished()
        while program.poll() is None:
            for run, events in self._events.items():
                if (blocked := of_kind(events.all(), "blocked")) and not of_kind(events.all(), "injected"):
                    self._kill_driver(run, program, blocked[0]["batch"])
                    return
            if self._finished() > finished:
                end, finished = time.monotonic() + _RUN_S_MAX, self._finished()
            if time.monotonic() > end:
                raise RunFailed(f"{self._where}: no run ended within {_RUN_S_MAX} s; see {self._log}")
            time.sleep(_TICK_S)
        self._finished()

    def _kill_driver(self, run: Run, program: subprocess.Popen[bytes], batch: int) -> None:
        """Kills the JVM, then its Python parent, with SIGKILL."""
        jvm = of_kind(Events(self._folder / "events.jsonl").all(), "driver")[-1]["jvm"]
        processes.kill_all(program, first=jvm)
        self._events[run].say("injected", batch=batch)

    def _finished(self) -> int:
        finished = sum(bool(of_kind(events.all(), "finished")) for events in self._events.values())
        self._tell(finished)
        return finished

    def _arm(self, run: Run) -> None:
        """Sets the trap of a network fault; it opens once the run's batch has an entry in Spark's offset log."""
        fault = FAULTS[run.fault]
        if fault.strikes is None:
            return
        events, begun = self._events[run], Path(run.folder) / "last" / "offsets" / str(run.batch)

        def struck(request: str) -> None:
            if fault.name == "gateway_kill":
                self._gateway.kill()
                self._gateway.start()
                self._proxy.upstream_port = self._gateway.port
            events.say("injected", request=request, batch=run.batch)

        def repeated(request: str) -> None:
            events.say("repeat_seen", request=request)

        def ready() -> bool:
            return begun.exists() and not of_kind(events.all(), "finished")

        self._proxy.arm(Trap(fault.strikes[run.way], ready, struck, repeated))

    def _counted(self, run: Run) -> Counted:
        """Compares the run's output with the expected ids."""
        with Gateway(f"http://{processes.HOST}:{self._gateway.port}", run.name) as gateway:
            rows = read_files(Path(run.folder) / "out") if run.way == "claim" else gateway.read(TOPIC)
            counters = gateway.describe()["counters"]
        came = Counter() if rows is None else Counter(rows.column("id").to_pylist())
        wanted = PLANS[run.plan].expected(run.input)
        more, less = (came - wanted).total(), (wanted - came).total()
        causes = {name.removeprefix(_CAUSE): count for name, count in counters.items() if name.startswith(_CAUSE)}
        counts = {cause: count for cause, count in causes.items() if count}
        return Counted(run, hit(run, self._events[run].all()), more, less, counters["takeovers"], counts)
