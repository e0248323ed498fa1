"""Computes the start-up and readiness state of the gateway for every transport."""

from dataclasses import dataclass

from oncegate.core.errors import NotFound
from oncegate.engine.gateway import Gateway
from oncegate.transports.decode.identifiers import shortened
from oncegate.transports.incoming import DRAINED, UNDO

# Limit of namespaces named in a detail: a failing server may affect a thousand of them.
NAMED_MAX = 10


_SERVING = ("SERVING", "FULL")


@dataclass(frozen=True)
class HealthAnswer:
    """The answer to a probe.

    namespaces: the state of each, SERVING | FULL | STANDBY | RECOVERING | DOWN. FULL counts as ready: the namespace
    still serves reads, known ids, completes and releases.
    detail: why the gateway is not ok, or which namespaces do not serve, and why; empty: all serve.
    is_drained: an operator has drained the gateway; it is not ready whatever the states are.
    """

    ok: bool
    detail: str
    namespaces: dict[str, str]
    is_drained: bool = False


def started(gateway: Gateway | None) -> HealthAnswer:
    """Returns whether the kernels are compiled and the list of namespaces has been read."""
    if gateway is None:
        return HealthAnswer(False, "the gateway is starting: its ledgers are being opened", {})
    return HealthAnswer(True, "", gateway.readiness())


def ready(gateway: Gateway | None, namespace: str | None = None) -> HealthAnswer:
    """Returns whether `namespace`, or any namespace if None, serves from an index rebuilt to its ledger's end.

    One failing namespace does not make the gateway unready: only its own requests are refused. Raises NotFound for an
    unknown namespace.
    """
    if gateway is None:
        return started(gateway)
    states = gateway.readiness()
    if namespace is not None:
        if namespace not in states:
            raise NotFound(f"there is no namespace {shortened(namespace)}")
        states = {namespace: states[namespace]}
    if (note := gateway.draining) is not None:
        told = f"the gateway was drained by {note.who}: {note.why}; {UNDO} has it take new work again"
        return HealthAnswer(False, told, states, is_drained=True)
    waiting = {name: state for name, state in states.items() if state not in _SERVING}
    detail = _told(gateway, waiting) if waiting or states else "there is no namespace yet"
    return HealthAnswer(len(waiting) < len(states), detail, states)


def _told(gateway: Gateway, waiting: dict[str, str]) -> str:
    """Describes the namespaces that do not serve, and why; empty if all serve."""
    if not waiting:
        return ""
    lines = [f"{name} is {state}{_because(gateway.reason(name))}" for name, state in waiting.items()]
    detail = f"namespace {', '.join(lines[:NAMED_MAX])}"
    if len(lines) > NAMED_MAX:
        detail += f", and {len(lines) - NAMED_MAX} more"
    if standing := [f"{name}: {told}" for name in waiting if (told := gateway.standing(name))]:
        detail += f" ({'; '.join(standing)})"
    return detail


def _because(reason: str) -> str:
    return f" ({reason})" if reason else ""


def without_names(answer: HealthAnswer) -> HealthAnswer:
    """Returns the answer without namespace names and operators' notes, for callers without access to them."""
    if answer.is_drained:
        return HealthAnswer(False, f"{DRAINED}; {UNDO} has it take new work again", {}, is_drained=True)
    if not answer.namespaces:
        return answer
    return HealthAnswer(answer.ok, "" if answer.ok else "no namespace serves", {})
