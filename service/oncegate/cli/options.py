"""The options that verbs share: why and who of what operators do, the form of what is told."""

import getpass
import inspect
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from oncegate.cli.refusals import refuse_urls

Given = TypeVar("Given", str, str | None)


def said(text: Given) -> Given:
    """Returns what an option was given, if it was. Raises BadParameter where a script's variable was empty."""
    if text is not None and not text.strip():
        raise typer.BadParameter("it is empty; nothing was changed")
    return text


ReasonOption = Annotated[str, typer.Option("--reason", help="Why; it stands in the ledger.", callback=said)]
WhoOption = Annotated[
    str | None,
    typer.Option(
        help="Who you are, if not the user that you are logged in as; a key has a name beside it.", callback=said
    ),
]

AsJsonOption = Annotated[bool, typer.Option("--json", help="One JSON object.")]
AsJsonLinesOption = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]
TopicIdsOption = Annotated[str | None, typer.Option(help="The set of the ids, where it is not named after the topic.")]
RegistryUrlOption = Annotated[
    str,
    typer.Option(
        "--registry", help="The schema registry of values in Avro or Protobuf; ONCEGATE_REGISTRY_AUTH=USER:PASSWORD."
    ),
]
RegistryCaOption = Annotated[
    Path | None, typer.Option(help="PEM file of who signed its certificate.  [default: those commonly trusted]")
]
NamespaceOption = Annotated[str, typer.Option(help="The namespace.")]
OneNamespaceOption = Annotated[str | None, typer.Option("--namespace", help="One namespace's ledger.  [default: all]")]
DataOption = Annotated[Path, typer.Option(help="Data folder of the embedded ledger.", callback=refuse_urls)]
WitnessOption = Annotated[str | None, typer.Option(help="Where its witness is, if not beside it.")]
IdColOption = Annotated[list[str], typer.Option(help="The column that is the id; once for each of several.")]
IdSetOption = Annotated[
    str | None, typer.Option(help="The set the ids are of: for rows that were produced, their topic's name.")
]


def declare(verb: Callable[..., None], parameters: Iterable[inspect.Parameter]) -> Callable[..., None]:
    """Gives a verb the signature and the annotations that Typer reads its options from, and returns it."""
    signature = inspect.Signature(list(parameters))
    verb.__signature__ = signature  # type: ignore[attr-defined]
    verb.__annotations__ = {name: parameter.annotation for name, parameter in signature.parameters.items()}
    return verb


def note(reason: str, who: str | None) -> dict[str, str]:
    """Returns who asks and why, as the gateway reads it."""
    return {"why": reason, "who": _user() if who is None else who}


def _user() -> str:
    """Who is logged in; by number where the machine has no name for it, as in a container."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"user {os.getuid()}"
