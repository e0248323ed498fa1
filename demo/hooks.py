"""Identifies the run of this process, and injects the faults that strike inside Spark's own processes.

Python workers inherit the environment of the job, which names the run.
"""

import os
import signal
import time
from pathlib import Path
from typing import Any, NoReturn

from demo.events import Events
from demo.faults import STRUCK_PARTITION
from demo.plan import PLANS, Plan

FOLDER, START, PLAN = "DEMO_FOLDER", "DEMO_START", "DEMO_PLAN"
BATCHES_BEFORE_THE_KILL = 2
_BLOCKED_S_MAX = 120


def environment(plan: Plan, folder: Path, start: int) -> dict[str, str]:
    """Returns the environment of a job: its plan, the run's folder, and the number of this start."""
    return {PLAN: plan.name, FOLDER: str(folder), START: str(start)}


def strikes_batch(fault: str, batch: int) -> bool:
    """Returns whether the plan of this process injects the fault in this batch."""
    planned = PLANS[os.environ[PLAN]].fault(fault)
    return planned is not None and planned.batch == batch


def events() -> Events:
    """Opens the event file of this process's run."""
    return Events(Path(os.environ[FOLDER]) / "events.jsonl")


class Here:
    """The task attempt in which it is created."""

    def __init__(self) -> None:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None, "made inside a task"
        self.partition: int = context.partitionId()
        self.attempt: int = context.attemptNumber()
        self.batch = int(context.getLocalProperty("streaming.sql.batchId") or -1)
        self.events = events()

    def say(self, kind: str, **fields: Any) -> None:
        """Records an event of this attempt."""
        where = {"batch": self.batch, "partition": self.partition, "attempt": self.attempt}
        self.events.say(kind, **where, start=int(os.environ[START]), **fields)

    def strikes(self, fault: str) -> bool:
        """Returns whether `fault` strikes this attempt; true once per run."""
        meant = strikes_batch(fault, self.batch) and (self.partition, self.attempt) == (STRUCK_PARTITION, 0)
        return meant and self.events.first_time(fault)

    def injected(self, fault: str, **fields: Any) -> None:
        """Records that this attempt injects a fault."""
        self.say("injected", fault=fault, **fields)


def kill_this_process() -> NoReturn:
    """Kills this process with SIGKILL, without any cleanup, as the kernel's OOM killer would."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable")


def block_until_killed() -> NoReturn:
    """Blocks until the driver is killed, then exits. Raises TimeoutError if it is not killed."""
    parent, end = os.getppid(), time.monotonic() + _BLOCKED_S_MAX
    while time.monotonic() < end:
        if os.getppid() != parent:
            os._exit(1)
        time.sleep(0.05)
    raise TimeoutError("commit() was blocked for the supervisor to kill the driver, and it did not")
