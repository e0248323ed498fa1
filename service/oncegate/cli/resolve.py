"""Defines the verb `oncegate resolve`: a person clears what a dead task has claimed and not settled."""

import json
import sys
import urllib.parse
from enum import StrEnum
from typing import Annotated

import typer

from oncegate.cli.explain import AsJson, Namespace
from oncegate.cli.operating.options import Who, note, said
from oncegate.cli.refusals import refusing
from oncegate.cli.running.requests import Ca, Certificate, Url, answer_about
from oncegate.core.errors import BadRequest


class Outcome(StrEnum):
    """Names what the person has found out."""

    DONE = "done"
    NOT_DONE = "not-done"


Found = Annotated[Outcome, typer.Argument(help="Whether it was written.")]
Claim = Annotated[str | None, typer.Option(help="The claim whose ids were left, as an ack or `explain` names it.")]
Producer = Annotated[str | None, typer.Option(help="The producer whose sequences were left.")]
First = Annotated[int | None, typer.Option(help="Of a producer: only from this sequence on.")]
Last = Annotated[int | None, typer.Option(help="Of a producer: only up to this sequence.")]
Why = Annotated[str, typer.Option("--reason", "--why", help="What you saw; it stands in the ledger.", callback=said)]


def resolve(
    outcome: Found,
    why: Why,
    claim: Claim = None,
    producer: Producer = None,
    first: First = None,
    last: Last = None,
    who: Who = None,
    url: Url = "http://127.0.0.1:8080",
    namespace: Namespace = "default",
    as_json: AsJson = False,
    ca: Ca = None,
    certificate: Certificate = None,
) -> None:
    """Clear what a dead task has claimed and not settled, so that acks pass: it was written, or it was not.

    Look first. Example: oncegate resolve done --producer events-3 --first 18 --last 19 --why "both are in the sink"
    """
    with refusing():
        if (claim is None) == (producer is None) or (claim is not None and (first, last) != (None, None)):
            raise BadRequest("name --claim, or else --producer, perhaps with --first and --last; nothing was changed")
        message: dict[str, object] = {"outcome": outcome.replace("-", "_"), **note(why, who)}
        message |= {name: value for name, value in (("first", first), ("last", last)) if value is not None}
        place = f"producers/{_quoted(producer)}" if claim is None else f"claims/{_quoted(claim)}"
        body = answer_about(url, namespace, f"{place}:resolve", message, ca, certificate)
        count, what = json.loads(body)["resolved"], "ids" if producer is None else "sequences"
        line = f"{count} {what} are {outcome.value} from now on" if count else "nothing was left to clear"
        sys.stdout.write((body if as_json else line) + "\n")


def _quoted(name: str | None) -> str:
    return urllib.parse.quote(name or "", safe="")
