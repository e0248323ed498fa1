"""The faults of the matrix, and its runs: a job written in one way, struck once by one fault."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from demo.events import Event, of_kind
from demo.matrix.plans import PLANS, Input

WAYS = ("plain", "claim", "staged", "ids", "dedup")
BATCHES = 3


@dataclass(frozen=True)
class Fault:
    """A fault, described by `title`.

    where: `local`, or the cluster that it needs.
    strikes: for a network fault, the request that it strikes, by way. None: a fault of Spark itself, for which `plain`
    must show duplicates.
    """

    name: str
    title: str
    where: str = "local"
    strikes: dict[str, str] | None = None


_LAST_OF = {"plain": "produce", "claim": "complete", "staged": "commit", "ids": "produce", "dedup": "commit"}
_FIRST_OF = {"plain": "produce", "claim": "claim", "staged": "stage", "ids": "produce", "dedup": "take"}
FAULTS = {
    fault.name: fault
    for fault in (
        Fault("task_error", "a task raises when it has written"),
        Fault("worker_kill", "a Python worker is killed when it has written"),
        Fault("executor_kill", "an executor is killed when a task of it has written", "local-cluster"),
        Fault("lost_shuffle", "shuffle files are lost while a stage reads them, and it runs again", "local-cluster"),
        Fault("speculation", "two attempts of a task run at once, and both write", "standalone"),
        Fault("driver_kill", "the driver is killed between the sink's commit and Spark's"),
        Fault("batch_replay", "the last entry of the commit log is lost"),
        Fault("gateway_kill", "the gateway is killed before it has answered", strikes=_LAST_OF),
        Fault("reply_lost", "an answer of the gateway is lost", strikes=_FIRST_OF),
    )
}


@dataclass(frozen=True)
class Run:
    """A run of a cell. `batch`: the micro-batch that the fault strikes; `folder`: all files of the run."""

    fault: str
    way: str
    plan: str
    number: int
    batch: int
    folder: str

    @property
    def name(self) -> str:
        """Returns the run's namespace."""
        return f"{self.fault}-{self.way}-{self.number}".replace("_", "-")

    @property
    def input(self) -> Input:
        """Returns the run's input."""
        return Input(Path(self.folder) / "in", BATCHES)


def runs_of(fault: str, ways: tuple[str, ...], count: int, seed: int, out: Path) -> Iterator[Run]:
    """Yields the runs of a fault: for each way the same jobs, struck in the same batches, drawn from the seed.

    The jobs take turns, also from fault to fault, so that a few runs per cell cover all of them.
    """
    plans, first = list(PLANS), list(FAULTS).index(fault) * count
    chance = random.Random(f"{seed} {fault}")
    for number in range(count):
        plan, batch = plans[(seed + first + number) % len(plans)], chance.randrange(BATCHES)
        if fault == "batch_replay":
            batch = BATCHES - 1
        for way in ways:
            yield Run(fault, way, plan, number, batch, str(out / f"{fault}-{way}-{number}"))


def hit(run: Run, events: list[Event]) -> bool:
    """Returns whether the fault had an effect: the struck rows were written, or the request was sent, again."""
    injected = of_kind(events, "injected")
    if not injected:
        return False
    if FAULTS[run.fault].strikes is not None:
        return bool(of_kind(events, "repeat_seen"))
    struck = injected[0]
    same = {name: struck[name] for name in ("batch", "partition") if name in struck}
    again = [e for e in of_kind(events, "wrote", **same) if e["rows"] > 0 and e["token"] != struck.get("token")]
    if run.fault == "lost_shuffle":  # a retry within the same stage is not a second run
        again = [event for event in again if event["attempt"] == 0]
    return any(event["t"] > struck["t"] for event in again)
