"""Defines options that several verbs share: operator and reason, output format, data."""

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
    """Returns the value of an option. Raises BadParameter if it is empty, e.g. an unset variable of a script."""
    if text is not None and not text.strip():
        raise typer.BadParameter("it is empty; nothing was changed")
    return text


ReasonOption = Annotated[str, typer.Option("--reason", help="Why; recorded in the ledger.", callback=said)]
WhoOption = Annotated[
    str | None,
    typer.Option(help="Who you are, if not the logged-in user; a key's name is recorded as well.", callback=said),
]

AsJsonOption = Annotated[bool, typer.Option("--json", help="One JSON object.")]
AsJsonLinesOption = Annotated[bool, typer.Option("--json", help="One JSON object per line.")]
TopicIdsOption = Annotated[str | None, typer.Option(help="The set of the ids, if it is not named after the topic.")]
RegistryUrlOption = Annotated[
    str,
    typer.Option(
        "--registry", help="The schema registry of values in Avro or Protobuf; ONCEGATE_REGISTRY_AUTH=USER:PASSWORD."
    ),
]
RegistryCaOption = Annotated[
    Path | None, typer.Option(help="PEM file of its certificate's authority.  [default: those commonly trusted]")
]
NamespaceOption = Annotated[str, typer.Option(help="The namespace.")]
OneNamespaceOption = Annotated[str | None, typer.Option("--namespace", help="One namespace's ledger.  [default: all]")]
DataOption = Annotated[Path, typer.Option(help="Data folder of the embedded ledger.", callback=refuse_urls)]
WitnessOption = Annotated[str | None, typer.Option(help="Where its witness (rollback check) is, if not beside it.")]
IdColOption = Annotated[list[str], typer.Option(help="A column of the id; repeatable.")]
IdSetOption = Annotated[str | None, typer.Option(help="The set of the ids: for produced rows, their topic's name.")]


def declare(verb: Callable[..., None], parameters: Iterable[inspect.Parameter]) -> Callable[..., None]:
    """Sets the signature and annotations from which Typer derives a verb's options; returns the verb."""
    signature = inspect.Signature(list(parameters))
    verb.__signature__ = signature  # type: ignore[attr-defined]
    verb.__annotations__ = {name: parameter.annotation for name, parameter in signature.parameters.items()}
    return verb


def note(reason: str, who: str | None) -> dict[str, str]:
    """Returns the operator and the reason as members of a request."""
    return {"why": reason, "who": _user() if who is None else who}


def _user() -> str:
    """Returns the logged-in user's name, or the user id if it has no name, as in a container."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"user {os.getuid()}"
