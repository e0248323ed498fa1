"""Defines the verb `oncegate resolve`: a person clears what a dead task has claimed and not settled."""

import json
import sys
import urllib.parse
from enum import StrEnum
from typing import Annotated

import typer

from oncegate.cli.explain import AsJsonOption, NamespaceOption
from oncegate.cli.operating.options import WhoOption, note, said
from oncegate.cli.refusals import refusing
from oncegate.cli.running.requests import CaOption, CertificateOption, UrlOption, answer_about
from oncegate.core.errors import BadRequest


class Resolution(StrEnum):
    """Names what the person has found out."""

    DONE = "done"
    NOT_DONE = "not-done"


OutcomeArgument = Annotated[Resolution, typer.Argument(help="Whether it was written.")]
ClaimOption = Annotated[
    str | None, typer.Option(help="The claim whose ids were left, as an ack or `explain` names it.")
]
ProducerOption = Annotated[str | None, typer.Option(help="The producer whose sequences were left.")]
FirstOption = Annotated[int | None, typer.Option(help="Of a producer: only from this sequence on.")]
LastOption = Annotated[int | None, typer.Option(help="Of a producer: only up to this sequence.")]
WhyOption = Annotated[
    str, typer.Option("--reason", "--why", help="What you saw; it stands in the ledger.", callback=said)
]


def resolve(
    outcome: OutcomeArgument,
    why: WhyOption,
    claim: ClaimOption = None,
    producer: ProducerOption = None,
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
        place = f"producers/{_quoted(producer)}" if claim is None else f"claims/{_quoted(claim)}"
        body = answer_about(url, namespace, f"{place}:resolve", message, ca, certificate)
        count, what = json.loads(body)["resolved"], "ids" if producer is None else "sequences"
        line = f"{count} {what} are {outcome.value} from now on" if count else "nothing was left to clear"
        sys.stdout.write((body if as_json else line) + "\n")


def _quoted(name: str | None) -> str:
    return urllib.parse.quote(name or "", safe="")
