"""Defines `oncegate resolve`, `release`, `fence` and `log`: clear claims, and show what operators did."""

import json
import sys
import urllib.parse
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from oncegate.cli.explain import when
from oncegate.cli.options import (
    AsJsonOption,
    ReasonOption,
    WhoOption,
    note,
    said,
)
from oncegate.cli.requests import HERE, RunningGateway, asking
from oncegate.cli.tables import table_of
from oncegate.core.errors import BadRequest


class Resolution(StrEnum):
    """The operator's finding: whether the leftover was written."""

    DONE = "done"
    NOT_DONE = "not-done"


OutcomeArgument = Annotated[Resolution, typer.Argument(help="Whether it was written.")]
LeftClaimOption = Annotated[
    str | None, typer.Option(help="The claim whose ids were left, as named by an ack or by `explain`.")
]
LeftProducerOption = Annotated[str | None, typer.Option(help="The producer whose sequences were left.")]
FirstOption = Annotated[int | None, typer.Option(help="With --producer: only from this sequence on.")]
LastOption = Annotated[int | None, typer.Option(help="With --producer: only up to this sequence.")]
WhyOption = Annotated[
    str, typer.Option("--reason", "--why", help="What you found; recorded in the ledger.", callback=said)
]


@asking
def resolve(
    outcome: OutcomeArgument,
    why: WhyOption,
    claim: LeftClaimOption = None,
    producer: LeftProducerOption = None,
    first: FirstOption = None,
    last: LastOption = None,
    who: WhoOption = None,
    gateway: RunningGateway = HERE,
    as_json: AsJsonOption = False,
) -> None:
    """Clear what a dead task claimed and neither completed nor released, so that acks pass: it was written, or it was
    not.

    Check first. Example: oncegate resolve done --producer events-3 --first 18 --last 19 --why "both are in the sink"
    """
    if (claim is None) == (producer is None) or (claim is not None and (first, last) != (None, None)):
        raise BadRequest("name --claim, or else --producer, perhaps with --first and --last; nothing was changed")
    message: dict[str, object] = {"outcome": outcome.replace("-", "_"), **note(why, who)}
    message |= {name: value for name, value in (("first", first), ("last", last)) if value is not None}
    path = f"producers/{_quoted(producer)}" if claim is None else f"claims/{_quoted(claim)}"
    body = gateway.text_about(f"/{path}:resolve", message)
    count, what = json.loads(body)["resolved"], "ids" if producer is None else "sequences"
    line = f"{count} {what} are {outcome.value} from now on" if count else "nothing was left to clear"
    sys.stdout.write((body if as_json else line) + "\n")


def _quoted(name: str | None) -> str:
    return urllib.parse.quote(name or "", safe="")


ClaimArgument = Annotated[str, typer.Argument(help="The claim, as named by `explain`.")]
GoneOption = Annotated[
    bool, typer.Option("--holder-gone", help="Its holder is certainly dead: do not wait for its lease.")
]


@asking
def release(
    claim: ClaimArgument,
    reason: ReasonOption,
    holder_gone: GoneOption = False,
    who: WhoOption = None,
    gateway: RunningGateway = HERE,
    as_json: AsJsonOption = False,
) -> None:
    """Release a claim whose holder is gone and has written none of its ids: they are free at once.

    If they were written: oncegate resolve done --claim. While the lease is live, only with --holder-gone.

    Example: oncegate release 1g5s... --holder-gone --reason "its pod was evicted before the first write"
    """
    message = {"outcome": "not_done", "verb": "release", "holder_gone": holder_gone, **note(reason, who)}
    body = gateway.text_about(f"/claims/{_quoted(claim)}:resolve", message)
    count = json.loads(body)["resolved"]
    line = f"{count} ids are free" if count else "it held nothing that was left: nothing was changed"
    sys.stdout.write((body if as_json else line) + "\n")


ProducerArgument = Annotated[str, typer.Argument(help="The name of the producer, an ordered partition of a source.")]


@asking
def fence(
    producer: ProducerArgument,
    reason: ReasonOption,
    who: WhoOption = None,
    gateway: RunningGateway = HERE,
    as_json: AsJsonOption = False,
) -> None:
    """Fence the holder of a producer, even if its lease is live: its requests are answered FENCED from now on.

    Its unfinished claims may be taken over. The next attempt can register at once.

    Example: oncegate fence events-3 --reason "two executors write it since the split"
    """
    body = gateway.text_about(f"/producers/{_quoted(producer)}:fence", note(reason, who))
    line = f"producer {producer} is at epoch {json.loads(body)['epoch']}, which nobody holds: older ones are FENCED"
    sys.stdout.write((body if as_json else line) + "\n")


CountOption = Annotated[int, typer.Option("--count", min=1, max=10_000, help="How many, the newest first.")]
# The maximum that the gateway lists in one answer.
PAGE = 1_000


@asking
def log(
    count: CountOption = 100,
    gateway: RunningGateway = HERE,
    as_json: AsJsonOption = False,
) -> None:
    """Show what operators did in a namespace, newest first: who, when, what and why. Drains are in `default`.

    With --json, one object per line. Example: oncegate log --namespace orders --count 20
    """
    actions = _actions(count, gateway)
    if as_json:
        sys.stdout.write("".join(json.dumps(action) + "\n" for action in actions))
        return
    table = table_of("when", "who", "did", "to", "changed", "why", title=f"what operators did in {gateway.namespace}")
    for entry in actions:
        shown = entry["who"], entry["action"], entry["subject"], str(entry["changed"]), entry["why"]
        table.add_row(when(entry["wall_ms"]), *map(escape, shown))
    Console().print(table)


def _actions(count: int, gateway: RunningGateway) -> list[dict[str, Any]]:
    actions: list[dict[str, Any]] = []
    following = None
    while len(actions) < count:
        page = f"/audit?limit={min(PAGE, count - len(actions))}" + (f"&before={following}" if following else "")
        answer = gateway.ask_about(page)
        actions, following = actions + answer["actions"], answer["next"]
        if following is None:
            break
    return actions
