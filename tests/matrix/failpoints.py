"""Kills or stops this process at a named step of the ledger on Kafka, from outside the shipped source.

`install` wraps the steps. A wrapped step looks for the file `armed` in the folder that the environment names. The file
holds the point, the signal, and how often the step is passed first. The process that meets the point renames the file
to `struck`.
"""

import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import wraps
from pathlib import Path
from typing import Any

from oncegate.ledgers.kafka.shard import ledger, opening
from oncegate.ledgers.kafka.shard.ledger import KafkaLedger
from oncegate.ledgers.kafka.shard.ownership import Ownership
from oncegate.ledgers.kafka.shard.writer import FrameWriter
from oncegate.ledgers.kafka.transactions.guard import Guard

FOLDER = "MATRIX_FAILPOINT"
ARMED, STRUCK = "armed", "struck"

# Point: the owner of the step, the step's name, and whether the point is met after the step.
STEPS: dict[str, tuple[Any, str, bool]] = {
    "begun": (Guard, "_send", False),
    "outputs sent": (Guard, "_send", True),
    "all sent": (Guard, "_end", False),
    "committed": (Guard, "_end", True),
    "in doubt": (FrameWriter, "_decide", False),
    "decided": (FrameWriter, "_decide", True),
    "generation taken": (Ownership, "_end_all", False),
    "older ended": (Ownership, "_end_all", True),
    "producer started": (Ownership, "begin", True),
    "frames read": (opening, "_read", True),
    "owned": (opening, "_own", True),
    "proved": (Ownership, "prove", True),
    "piece written": (FrameWriter, "write_blob", True),
    "before the collection": (KafkaLedger, "_replace", False),
    "collected": (KafkaLedger, "_replace", True),
    "before the deletion": (ledger, "shorten", False),
    "deleted": (ledger, "shorten", True),
}
# A step that yields items one after another; the point is met after the first.
REPLAYING = "replaying"
POINTS = (*STEPS, REPLAYING)
# Excludes the producer that writes the list of namespaces: only a ledger's own transactions are meant.
_LIST = ".namespaces"


def install() -> None:
    """Wraps every step; wraps nothing if the environment names no folder."""
    if not (folder := os.environ.get(FOLDER)):
        return
    by_step: dict[tuple[Any, str], list[tuple[str, bool]]] = {}
    for point, (owner, name, behind) in STEPS.items():
        by_step.setdefault((owner, name), []).append((point, behind))
    for (owner, name), points in by_step.items():
        setattr(owner, name, _wrapped(Path(folder), getattr(owner, name), points))
    ledger.replayed = _wrapped_replay(Path(folder), ledger.replayed)  # type: ignore[attr-defined]


def _wrapped(
    folder: Path, step: Callable[..., Awaitable[Any]], points: list[tuple[str, bool]]
) -> Callable[..., Awaitable[Any]]:
    @wraps(step)
    async def watched(*arguments: Any, **named: Any) -> Any:
        if _is_list(arguments):
            return await step(*arguments, **named)
        _meet(folder, [point for point, behind in points if not behind])
        result = await step(*arguments, **named)
        _meet(folder, [point for point, behind in points if behind])
        return result

    return watched


def _wrapped_replay(folder: Path, step: Callable[..., AsyncIterator[Any]]) -> Callable[..., AsyncIterator[Any]]:
    @wraps(step)
    async def watched(*arguments: Any) -> AsyncIterator[Any]:
        async for batch in step(*arguments):
            yield batch
            _meet(folder, [REPLAYING])

    return watched


def _is_list(arguments: tuple[Any, ...]) -> bool:
    guarded = arguments[0] if arguments else None
    return isinstance(guarded, Guard) and guarded.transactional_id.endswith(_LIST)


def _meet(folder: Path, points: list[str]) -> None:
    armed = folder / ARMED
    if not points or not armed.exists():
        return
    point, wanted, passes = armed.read_text().split("\n")
    if point not in points:
        return
    if int(passes):
        arm(folder, point, signal.Signals(int(wanted)), int(passes) - 1)
        return
    armed.rename(folder / STRUCK)
    os.kill(os.getpid(), int(wanted))


def arm(folder: Path, point: str, wanted: signal.Signals, passes: int = 0) -> None:
    """Schedules a signal for the process of this folder at a point, after `passes` passes."""
    assert point in POINTS, point
    new = folder / "new"
    new.write_text(f"{point}\n{wanted.value}\n{passes}")
    new.rename(folder / ARMED)


def disarm(folder: Path) -> bool:
    """Removes the armed point and returns whether it was met."""
    struck = (folder / STRUCK).exists()
    for name in (ARMED, STRUCK):
        (folder / name).unlink(missing_ok=True)
    return struck
