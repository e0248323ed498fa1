"""The faults of the matrix, and a run: one job written one way, struck once by one fault."""

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
    """`title` says what happens. `where`: `local`, or the cluster that it needs. `strikes`: for a fault of the network,
    the request that it strikes, by way; without it the fault is Spark's own, and `plain` must show duplicates."""

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
    """One cell's run. `batch`: the micro-batch that is struck; `folder`: all that the run leaves."""

    fault: str
    way: str
    plan: str
    number: int
    batch: int
    folder: str

    @property
    def name(self) -> str:
        """The run's namespace."""
        return f"{self.fault}-{self.way}-{self.number}".replace("_", "-")

    @property
    def input(self) -> Input:
        """What the run reads."""
        return Input(Path(self.folder) / "in", BATCHES)


def runs_of(fault: str, ways: tuple[str, ...], count: int, seed: int, out: Path) -> Iterator[Run]:
    """The runs of a fault: for every way the same jobs, struck in the same batches, as the seed has drawn them.

    The jobs take turns, from fault to fault too, so that few runs of each cell see all of them.
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
    """Whether the system was seen to meet the fault: what it struck was written, or asked, once more."""
    injected = of_kind(events, "injected")
    if not injected:
        return False
    if FAULTS[run.fault].strikes is not None:
        return bool(of_kind(events, "repeat_seen"))
    struck = injected[0]
    same = {name: struck[name] for name in ("batch", "partition") if name in struck}
    again = [e for e in of_kind(events, "wrote", **same) if e["rows"] > 0 and e["token"] != struck.get("token")]
    if run.fault == "lost_shuffle":  # a retry of the same stage is no second run of it
        again = [event for event in again if event["attempt"] == 0]
    return any(event["t"] > struck["t"] for event in again)
