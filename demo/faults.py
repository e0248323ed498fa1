"""The table of faults: the batch and the hook of each, and how the run's events show a hit.

A fault is *injected* once its own event is recorded, and *hit* once later events show its effect on the system. A fault
that was injected but changed nothing proves nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass

from demo.events import Event, of_kind

# The requests that the faults of the gateway strike, by the option `write`.
GATEWAY_KILL_STRIKES = {"plain": "produce", "claim": "complete", "staged": "commit", "ids": "produce", "direct": "ask"}
REPLY_LOST_STRIKES = {"plain": "produce", "claim": "claim", "staged": "stage", "ids": "produce", "direct": "ask"}

# The partition whose task fails. A batch of two files on two cores has two partitions.
STRUCK_PARTITION = 0


@dataclass(frozen=True)
class Fault:
    """A fault: `hook` names the place that injects it, `hit` decides from the run's events whether it had an effect."""

    name: str
    batch: int
    hook: str
    hit: Callable[[list[Event], int], bool]
    spark: bool = True  # False: not a fault of Spark itself, shown separately
    gateway: bool = False  # skipped by ways without a gateway


def _retried(events: list[Event], batch: int) -> bool:
    return bool(of_kind(events, "attempt", batch=batch, partition=STRUCK_PARTITION, attempt=1))


def tasks_by_start(events: list[Event], batch: int) -> dict[int, int]:
    """Returns the number of tasks that each start of the job ran for a batch."""
    tasks = {(e["start"], e["partition"]) for e in of_kind(events, "attempt", batch=batch)}
    return {start: sum(s == start for s, _ in tasks) for start in sorted({s for s, _ in tasks})}


def _replayed_otherwise(events: list[Event], batch: int) -> bool:
    killed = of_kind(events, "injected", fault="driver_kill")
    tasks = list(tasks_by_start(events, batch).values())
    done = of_kind(events, "committed", batch=batch)
    return bool(killed and done) and not killed[0]["commit_log_entry"] and len(tasks) > 1 and tasks[0] != tasks[-1]


def _same_number_again(events: list[Event], batch: int) -> bool:
    deleted = of_kind(events, "injected", fault="batch_replay")
    return bool(deleted) and any(
        e["start"] > deleted[0]["start"] and e["rows"] > 0 for e in of_kind(events, "wrote", batch=batch)
    )


def _no_byte_of_the_answer(events: list[Event], _batch: int) -> bool:
    killed = of_kind(events, "injected", fault="gateway_kill", answer_bytes_forwarded=0, exit_status=-9)
    return bool(killed) and bool(of_kind(events, "gateway_serves_again"))


def _repeat_seen(events: list[Event], _batch: int) -> bool:
    lost = of_kind(events, "injected", fault="reply_lost")
    return bool(lost) and bool(of_kind(events, "repeat_seen", request=lost[0]["request"]))


def _standby_serves(events: list[Event], _batch: int) -> bool:
    killed = of_kind(events, "injected", fault="standby_takeover", stood_by=True, exit_status=-9)
    return bool(killed) and bool(of_kind(events, "gateway_serves_again", standby=True))


def _wrote_while_it_was_dead(events: list[Event], batch: int) -> bool:
    killed = of_kind(events, "injected", fault="broker_kill", answers=False)
    again, done = of_kind(events, "broker_serves_again"), of_kind(events, "committed", batch=batch)
    handed = of_kind(events, "handed_over", batch=batch)
    return bool(killed and again and done) and any(killed[0]["t"] < e["t"] < again[0]["t"] for e in handed)


def _asked_while_it_was_dead(events: list[Event], batch: int) -> bool:
    killed = of_kind(events, "injected", fault="server_kill", exit_status=-9)
    again, done = of_kind(events, "server_serves_again"), of_kind(events, "committed", batch=batch)
    if not (killed and again and done):
        return False
    repeats = of_kind(events, "repeat_seen", request=killed[0]["request"])
    return any(killed[0]["t"] < event["t"] < again[0]["t"] for event in repeats)


FAULTS = (
    Fault("task_error", 1, "the writer raises at the end of write()", _retried),
    Fault("worker_kill", 3, "the writer kills its own process after its second Arrow batch", _retried),
    Fault("driver_kill", 5, "the writer's commit() blocks; the supervisor kills JVM, then Python", _replayed_otherwise),
    Fault("batch_replay", 7, "the supervisor deletes the last commit-log entry", _same_number_again),
    Fault("gateway_kill", 9, "the proxy holds the answer; the supervisor kills", _no_byte_of_the_answer, False, True),
    Fault("reply_lost", 11, "the proxy swallows one 2xx", _repeat_seen, False, True),
)
BROKER_KILL = Fault(
    *("broker_kill", 8, "a task waits after its second Arrow batch; the supervisor kills"),
    *(_wrote_while_it_was_dead, False),
)
SERVER_KILL = Fault(
    *("server_kill", 8, "the proxy holds the answer; the supervisor kills the ledger's server"),
    *(_asked_while_it_was_dead, False, True),
)
STANDBY_TAKEOVER = Fault(
    *("standby_takeover", 12, "the proxy holds the answer; the supervisor kills the owner beside its standby"),
    *(_standby_serves, False, True),
)
BY_NAME = {fault.name: fault for fault in (*FAULTS, BROKER_KILL, SERVER_KILL, STANDBY_TAKEOVER)}


def state(fault: Fault, events: list[Event]) -> str:
    """Returns `waiting`, `injected` or `hit`."""
    if not of_kind(events, "injected", fault=fault.name):
        return "waiting"
    return "hit" if fault.hit(events, fault.batch) else "injected"
