"""Defines the verb `oncegate forget`."""

import json
import secrets
import sys
from pathlib import Path
from typing import Annotated

import typer

from oncegate.cli.options import (
    AsJsonOption,
    IdSetOption,
    ReasonOption,
    WhoOption,
    note,
)
from oncegate.cli.requests import HERE, RunningGateway, asking
from oncegate.core.errors import BadRequest

IdsArgument = Annotated[list[str] | None, typer.Argument(help="The ids; with --columns the columns of one id.")]
FileOption = Annotated[Path | None, typer.Option("--file", help="Read the ids from a file, one per line.")]
ColumnsOption = Annotated[bool, typer.Option("--columns", help="The arguments are the columns of one id.")]
AllOption = Annotated[bool, typer.Option("--all", help="Forget every id of the set that --id-set names.")]
ConfirmOption = Annotated[str | None, typer.Option(help="With --all: repeat the set's name; else it is asked for.")]


@asking
def forget(
    reason: ReasonOption,
    ids: IdsArgument = None,
    file: FileOption = None,
    columns: ColumnsOption = False,
    id_set: IdSetOption = None,
    every: AllOption = False,
    confirm: ConfirmOption = None,
    who: WhoOption = None,
    gateway: RunningGateway = HERE,
    as_json: AsJsonOption = False,
) -> None:
    """Forget ids that are done or taken, so that the next write of them passes. All of them, or none.

    Written rows stay, so the next write duplicates them. Ids under a claim are refused. With --all every id of a set is
    forgotten, including archived ones, e.g. after its topic in Kafka was created again.

    Example: oncegate forget --id-set orders a-1 a-2 --reason "their rows were lost, ticket 4711"
    """
    if every:
        if ids or file is not None or columns:
            raise BadRequest("--all is every id of the set: name none; nothing was forgotten")
        if id_set is None:
            raise BadRequest("--all wants the set's name: --id-set NAME; nothing was forgotten")
        _forget_all(id_set, confirm, note(reason, who), gateway, as_json)
        return
    if confirm is not None:
        raise BadRequest("--confirm is for --all; nothing was forgotten")
    id_set = id_set or ""
    message = {"ids": _ids(ids or [], file, columns), "id_set": id_set, **note(reason, who)}
    body = gateway.text_about("/ids:forget", message)
    count, asked_for = json.loads(body)["forgotten"], len(message["ids"])
    line = f"{count} forgotten"
    if count < asked_for:
        # Produced rows are in the set that is named after their topic.
        where = f"set {id_set!r} of namespace {gateway.namespace}"
        line += f"; {asked_for - count} not known in {where} (--id-set names another)"
    sys.stdout.write((body if as_json else line) + "\n")


def _forget_all(
    id_set: str,
    confirm: str | None,
    said: dict[str, str],
    gateway: RunningGateway,
    as_json: bool,
) -> None:
    if confirm is None:
        # The set of claims has an empty name, which at a terminal the Enter key alone would confirm.
        if not id_set or not sys.stdin.isatty():
            raise BadRequest(f"--all wants --confirm with the set's name, {id_set!r}; nothing was forgotten")
        question = f"Type the name of the set whose ids are all forgotten ({id_set!r})"
        confirm = typer.prompt(question, default="", show_default=False)
    message = {"id_set": id_set, "confirm": confirm, "token": secrets.token_hex(16), **said}
    body = gateway.text_about("/ids:forget_all", message)
    times = json.loads(body)["times"]
    line = f"every id of set {id_set!r} is forgotten ({times} times by now)"
    sys.stdout.write((body if as_json else line) + "\n")


def _ids(ids: list[str], file: Path | None, columns: bool) -> list[str] | list[list[str]]:
    if bool(ids) == (file is not None) or (columns and file is not None):
        raise BadRequest("name ids, or else a --file with one a line; nothing was forgotten")
    if columns:
        return [ids]
    return ids if file is None else [line for line in file.read_text("utf-8").splitlines() if line]
