"""Tells whether the gateway is started and ready: one answer for every transport."""

from dataclasses import dataclass

from oncegate.engine.gateway import Gateway
from oncegate.transports.draining import DRAINED, UNDO

# What one server does to a thousand namespaces is told often enough by these.
NAMED_MAX = 10


@dataclass(frozen=True)
class Answer:
    """The answer to a probe. `namespaces`: the state of each, SERVING | FULL | STANDBY | RECOVERING | DOWN.

    is_drained: an operator wants no new work here, so it is not ready whatever the states are. FULL serves reads and
    answers what is known, and completes and releases: taken out of service it could not.
    """

    ok: bool
    detail: str
    namespaces: dict[str, str]
    is_drained: bool = False


def started(gateway: Gateway | None) -> Answer:
    """Tells whether kernels are compiled and every ledger has been opened and rebuilt once."""
    if gateway is None:
        return Answer(False, "the gateway is starting: its ledgers are being opened", {})
    return Answer(True, "started", gateway.readiness())


def ready(gateway: Gateway | None) -> Answer:
    """Tells whether every namespace is served from an index that was rebuilt to the ledger's end; if not, why."""
    begun = started(gateway)
    if gateway is not None and gateway.draining is not None:
        note = gateway.draining
        told = f"the gateway was drained by {note.who}: {note.why}; {UNDO} has it take new work again"
        return Answer(False, told, begun.namespaces, is_drained=True)
    if gateway is None:
        return begun
    waiting = [
        f"{name} is {state}{_because(gateway.reason(name))}"
        for name, state in begun.namespaces.items()
        if state not in ("SERVING", "FULL")
    ]
    if not waiting:
        return begun
    detail = f"namespace {', '.join(waiting[:NAMED_MAX])}"
    if len(waiting) > NAMED_MAX:
        detail += f", and {len(waiting) - NAMED_MAX} more"
    if standing := [f"{name}: {told}" for name in begun.namespaces if (told := gateway.standing(name))]:
        detail += f" ({'; '.join(standing)})"
    return Answer(False, detail, begun.namespaces)


def _because(reason: str) -> str:
    return f" ({reason})" if reason else ""


def without_names(answer: Answer) -> Answer:
    """Returns the same answer for somebody who may not know which namespaces there are, nor what operators say."""
    if answer.is_drained:
        return Answer(False, f"{DRAINED}; {UNDO} has it take new work again", {}, is_drained=True)
    if not answer.namespaces:
        return answer
    return Answer(answer.ok, answer.detail if answer.ok else "not every namespace serves", {})
