"""Defines the verb `oncegate forget`."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from oncegate.cli.explain import AsJson, Namespace
from oncegate.cli.operating.options import Reason, Who, note
from oncegate.cli.refusals import refusing
from oncegate.cli.running.requests import Ca, Certificate, Url, answer_about
from oncegate.core.errors import BadRequest

Ids = Annotated[list[str] | None, typer.Argument(help="The ids; of several columns: one id, with --columns.")]
File = Annotated[Path | None, typer.Option("--file", help="A file with one id a line, instead.")]
Columns = Annotated[bool, typer.Option("--columns", help="The words are the columns of one id.")]
IdSet = Annotated[str, typer.Option(help="The set the ids are of: for rows that were produced, their topic's name.")]


def forget(
    reason: Reason,
    ids: Ids = None,
    file: File = None,
    columns: Columns = False,
    id_set: IdSet = "",
    who: Who = None,
    url: Url = "http://127.0.0.1:8080",
    namespace: Namespace = "default",
    as_json: AsJson = False,
    ca: Ca = None,
    certificate: Certificate = None,
) -> None:
    """Forget ids that are done or taken, so that the next write of them passes. All of them, or none.

    What was written stays where it is: it is there twice then. Ids that a claim holds are refused.

    Example: oncegate forget --id-set orders a-1 a-2 --reason "their rows were lost, ticket 4711"
    """
    with refusing():
        message = {"ids": _ids(ids or [], file, columns), "id_set": id_set, **note(reason, who)}
        body = answer_about(url, namespace, "ids:forget", message, ca, certificate)
        count, asked_for = json.loads(body)["forgotten"], len(message["ids"])
        line = f"{count} forgotten"
        if count < asked_for:
            # Rows that were produced are in the set that is named after their topic.
            line += (
                f"; {asked_for - count} not known in set {id_set!r} of namespace {namespace} (--id-set names another)"
            )
        sys.stdout.write((body if as_json else line) + "\n")


def _ids(ids: list[str], file: Path | None, columns: bool) -> list[str] | list[list[str]]:
    if bool(ids) == (file is not None) or (columns and file is not None):
        raise BadRequest("name ids, or else a --file with one a line; nothing was forgotten")
    if columns:
        return [ids]
    return ids if file is None else [line for line in file.read_text("utf-8").splitlines() if line]
