"""Defines the verb `oncegate drain`."""

import json
import sys
from dataclasses import replace
from functools import partial
from typing import Annotated, Any

import typer

from oncegate.cli.options import AsJsonOption, ReasonOption, WhoOption, note
from oncegate.cli.progress import steps
from oncegate.cli.requests import HERE, RunningGateway, asking
from oncegate.clock import SystemClock
from oncegate.core.errors import OncegateError

UndoOption = Annotated[bool, typer.Option("--undo", help="Accept new work again.")]
WaitOption = Annotated[int, typer.Option(min=0, max=3_600_000, help="How long to wait for open claims, in ms.")]
# Polling interval: claims last seconds.
LOOK_MS = 500


@partial(asking, of_namespace=False)
def drain(
    reason: ReasonOption,
    undo: UndoOption = False,
    wait_ms: WaitOption = 60_000,
    who: WhoOption = None,
    gateway: RunningGateway = HERE,
    as_json: AsJsonOption = False,
) -> None:
    """Drain the gateway: it begins nothing new, and the command waits until open work has ended. Then stop the gateway.

    New claims and writes are answered 503 STOPPING, which clients retry, and the gateway is not ready. Claims are
    completed, batches committed and acks accepted. Staged rows of batches may wait: they survive a restart.

    Status 0: nothing is open. 1: claims are still open and stay in the ledger. A restart accepts new work again.
    """
    message = {"draining": not undo, **note(reason, who)}
    state = gateway.ask("v1/gateway:drain", message)
    if not undo:
        state = _waited(state, wait_ms, gateway)
        if not state["draining"]:
            raise OncegateError(
                "it takes new work: it was started anew meanwhile, or somebody has taken the drain back "
                "(`oncegate log`); drain it again"
            )
    left = _open_claims(state)
    if as_json or not left:
        sys.stdout.write((json.dumps(state) if as_json else _line(state)) + "\n")
    if left:
        over = _left_over(state, gateway)
        raise OncegateError(
            f"{left} claims are open still, and nothing new is taken: wait again by the same command, stop the "
            f"gateway (they stay in the ledger), or take it back with --undo{over}"
        )


def _waited(state: dict[str, Any], wait_ms: int, gateway: RunningGateway) -> dict[str, Any]:
    """Polls until no claim is open or the timeout expires. Returns the last answer."""
    clock, first = SystemClock(), _open_claims(state)
    until_ms = clock.monotonic_ms() + wait_ms
    with steps() as moved:
        while (left := _open_claims(state)) and clock.monotonic_ms() < until_ms:
            moved("claims that were open", max(0, first - left), first)
            clock.block_ms(LOOK_MS)
            state = gateway.ask("v1/gateway")
    return state


def _open_claims(state: dict[str, Any]) -> int:
    return sum(counts.get("open_claims", 0) for counts in state["open"].values()) if state["draining"] else 0


def _left_over(state: dict[str, Any], gateway: RunningGateway) -> str:
    """Returns a hint on claims with an expired lease: a drained gateway grants no takeover, so they may stay open."""
    for namespace in (name for name, counts in state["open"].items() if counts.get("open_claims")):
        answer = replace(gateway, namespace=namespace).ask_about("/claims?limit=1")
        if answer["claims"]:
            claim, holds = answer["claims"][0]["claim"], f"{answer['total']} of namespace {namespace} outlived"
            return (
                f". {holds} the lease, and waiting may not help: find out whether its ids were written, then "
                f"`oncegate resolve done` or `not-done` with --claim {claim} --namespace {namespace} --reason"
            )
    return ""


def _line(state: dict[str, Any]) -> str:
    if not state["draining"]:
        return "it takes new work"
    stages = sum(counts.get("stages", 0) for counts in state["open"].values())
    kept = f"; {stages} stages wait for their commit, and are kept" if stages else ""
    return f"drained: {_open_claims(state)} claims are open{kept}"
