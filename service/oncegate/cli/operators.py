"""Defines `oncegate resolve`, `release`, `fence` and `log`: a person clears claims, and sees who did what."""

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
    CaOption,
    CertificateOption,
    NamespaceOption,
    ReasonOption,
    UrlOption,
    WhoOption,
    note,
    said,
)
from oncegate.cli.refusals import refusing
from oncegate.cli.requests import answer_about
from oncegate.cli.tables import table_of
from oncegate.core.errors import BadRequest


class Resolution(StrEnum):
    """Names what the person has found out."""

    DONE = "done"
    NOT_DONE = "not-done"


OutcomeArgument = Annotated[Resolution, typer.Argument(help="Whether it was written.")]
LeftClaimOption = Annotated[
    str | None, typer.Option(help="The claim whose ids were left, as an ack or `explain` names it.")
]
LeftProducerOption = Annotated[str | None, typer.Option(help="The producer whose sequences were left.")]
FirstOption = Annotated[int | None, typer.Option(help="Of a producer: only from this sequence on.")]
LastOption = Annotated[int | None, typer.Option(help="Of a producer: only up to this sequence.")]
WhyOption = Annotated[
    str, typer.Option("--reason", "--why", help="What you saw; it stands in the ledger.", callback=said)
]


def resolve(
    outcome: OutcomeArgument,
    why: WhyOption,
    claim: LeftClaimOption = None,
    producer: LeftProducerOption = None,
    first: FirstOption = None,
    last: LastOption = None,
    who: WhoOption = None,
    url: UrlOption = "http://127.0.0.1:8080",
    namespace: NamespaceOption = "default",
    as_json: AsJsonOption = False,
    ca: CaOption = None,
    certificate: CertificateOption = None,
) -> None:
    """Clear what a dead task has claimed and not settled, so that acks pass: it was written, or it was not.

    Look first. Example: oncegate resolve done --producer events-3 --first 18 --last 19 --why "both are in the sink"
    """
    with refusing():
        if (claim is None) == (producer is None) or (claim is not None and (first, last) != (None, None)):
            raise BadRequest("name --claim, or else --producer, perhaps with --first and --last; nothing was changed")
        message: dict[str, object] = {"outcome": outcome.replace("-", "_"), **note(why, who)}
        message |= {name: value for name, value in (("first", first), ("last", last)) if value is not None}
        path = f"producers/{_quoted(producer)}" if claim is None else f"claims/{_quoted(claim)}"
        body = answer_about(url, namespace, f"{path}:resolve", message, ca, certificate)
        count, what = json.loads(body)["resolved"], "ids" if producer is None else "sequences"
        line = f"{count} {what} are {outcome.value} from now on" if count else "nothing was left to clear"
        sys.stdout.write((body if as_json else line) + "\n")


def _quoted(name: str | None) -> str:
    return urllib.parse.quote(name or "", safe="")


ClaimArgument = Annotated[str, typer.Argument(help="The claim, as `explain` names it.")]
GoneOption = Annotated[
    bool, typer.Option("--holder-gone", help="Its holder is dead for sure: do not wait for its lease.")
]


def release(
    claim: ClaimArgument,
    reason: ReasonOption,
    holder_gone: GoneOption = False,
    who: WhoOption = None,
    url: UrlOption = "http://127.0.0.1:8080",
    namespace: NamespaceOption = "default",
    as_json: AsJsonOption = False,
    ca: CaOption = None,
    certificate: CertificateOption = None,
) -> None:
    """Give back a claim whose holder is gone and has written none of its ids: they are free at once.

    If they were written: oncegate resolve done --claim. While its lease runs, only with --holder-gone.

    Example: oncegate release 1g5s... --holder-gone --reason "its pod was evicted before the first write"
    """
    with refusing():
        message = {"outcome": "not_done", "verb": "release", "holder_gone": holder_gone, **note(reason, who)}
        path = f"claims/{_quoted(claim)}:resolve"
        body = answer_about(url, namespace, path, message, ca, certificate)
        count = json.loads(body)["resolved"]
        line = f"{count} ids are free" if count else "it held nothing that was left: nothing was changed"
        sys.stdout.write((body if as_json else line) + "\n")


ProducerArgument = Annotated[str, typer.Argument(help="The producer: an ordered partition of a source, by its name.")]


def fence(
    producer: ProducerArgument,
    reason: ReasonOption,
    who: WhoOption = None,
    url: UrlOption = "http://127.0.0.1:8080",
    namespace: NamespaceOption = "default",
    as_json: AsJsonOption = False,
    ca: CaOption = None,
    certificate: CertificateOption = None,
) -> None:
    """Shut out whoever holds a producer, its lease or not: what they ask from now on is FENCED.

    What they had claimed and not settled may be taken over. The next attempt registers at once.

    Example: oncegate fence events-3 --reason "two executors write it since the split"
    """
    with refusing():
        path = f"producers/{_quoted(producer)}:fence"
        body = answer_about(url, namespace, path, note(reason, who), ca, certificate)
        line = f"producer {producer} is at epoch {json.loads(body)['epoch']}, which nobody holds: older ones are FENCED"
        sys.stdout.write((body if as_json else line) + "\n")


CountOption = Annotated[int, typer.Option("--count", min=1, max=10_000, help="How many, the newest first.")]
# As many as the gateway lists in one answer.
PAGE = 1_000


def log(
    count: CountOption = 100,
    url: UrlOption = "http://127.0.0.1:8080",
    namespace: NamespaceOption = "default",
    as_json: AsJsonOption = False,
    ca: CaOption = None,
    certificate: CertificateOption = None,
) -> None:
    """Show what operators did in a namespace, the newest first: who, when, what, and why. Drains are in `default`.

    With --json, one object a line. Example: oncegate log --namespace orders --count 20
    """
    with refusing():
        actions = _actions(count, url, namespace, ca, certificate)
        if as_json:
            sys.stdout.write("".join(json.dumps(action) + "\n" for action in actions))
            return
        table = table_of("when", "who", "did", "to", "changed", "why", title=f"what operators did in {namespace}")
        for entry in actions:
            shown = entry["who"], entry["action"], entry["subject"], str(entry["changed"]), entry["why"]
            table.add_row(when(entry["wall_ms"]), *map(escape, shown))
        Console().print(table)


def _actions(count: int, url: str, namespace: str, ca: Any, certificate: Any) -> list[dict[str, Any]]:
    actions: list[dict[str, Any]] = []
    following = None
    while len(actions) < count:
        page = f"audit?limit={min(PAGE, count - len(actions))}" + (f"&before={following}" if following else "")
        answer = json.loads(answer_about(url, namespace, page, None, ca, certificate))
        actions, following = actions + answer["actions"], answer["next"]
        if following is None:
            break
    return actions
