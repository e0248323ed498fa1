"""Defines the verb `oncegate replay`, which resends the input of a dead job through a running gateway."""

import base64
import json
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar
from urllib.parse import quote

import typer

from oncegate.cli.options import (
    AsJsonOption,
    IdColOption,
    ReasonOption,
    TopicIdsOption,
    WhoOption,
    note,
)
from oncegate.cli.progress import steps
from oncegate.cli.requests import HERE, RunningGateway, asking
from oncegate.core.errors import BadRequest, OncegateError

if TYPE_CHECKING:
    from oncegate.verifier.replay import Order, Replay, ReplayCounts, ReportStep

Ran = TypeVar("Ran")


class OnConflict(StrEnum):
    """The treatment of rows whose id was written with a different payload."""

    FAIL = "fail"
    DROP = "drop"


SourceArgument = Annotated[
    Path, typer.Argument(help="A file or folder (.parquet, .arrow, .csv, .ndjson) with the rows.")
]
TopicOption = Annotated[str, typer.Option(help="The topic that they were meant for, by its name in the gateway.")]
DigestColOption = Annotated[
    list[str], typer.Option(help="A column that is the id's payload, as the job named it; once for each of several.")
]
ConflictsOption = Annotated[
    OnConflict, typer.Option(help="What to do with an id that is written with another payload (--digest-col).")
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Report what would be written, and write nothing.")]
AllowNoneKnownOption = Annotated[
    bool, typer.Option("--allow-none-known", help="Write even if the ledger knows none of the rows.")
]


@asking
def replay(
    source: SourceArgument,
    topic: TopicOption,
    id_col: IdColOption,
    reason: ReasonOption,
    digest_col: DigestColOption = [],  # noqa: B006, never changed
    on_conflict: ConflictsOption = OnConflict.FAIL,
    id_set: TopicIdsOption = None,
    dry_run: DryRunOption = False,
    allow_none_known: AllowNoneKnownOption = False,
    who: WhoOption = None,
    gateway: RunningGateway = HERE,
    as_json: AsJsonOption = False,
) -> None:
    """Write the rows of a file or folder that are not written yet: ids that the ledger knows are dropped as duplicates.

    For the input of a job that died. It may be interrupted and run again at any time: the ledger knows what is written.
    It stops at the first refusal and reports its progress. Status 1 also if open claims held rows back. If none of the
    rows is known it writes nothing: their set of ids may be another one.

    Example: oncegate replay orders.parquet --topic orders --id-col order --reason "its job died, ticket 4711"
    """
    if on_conflict is OnConflict.DROP and not digest_col:
        raise BadRequest("--on-conflict drop needs --digest-col: without it contents are not compared")

    order = _with_schema(_order(source, topic, id_col, digest_col, id_set, on_conflict), gateway)
    # Imported here: pyarrow's file readers take a moment to import.
    from oncegate.verifier.replay import Replay
    from oncegate.verifier.sources.gateway import GatewayClient

    client = GatewayClient(gateway.url, gateway.namespace, trusted=gateway.trusted(), has_answered=True)
    with closing(client):
        run = Replay(order, client)
        if not (dry_run or allow_none_known):
            _check_known(run, order, gateway.namespace)
        if not dry_run:
            subject = f"topic {topic}, from {source.resolve().name}"
            gateway.ask_about("/audit", {"action": "replay", "subject": subject, **note(reason, who)})
        _with_bar(run, dry_run, run.look_up if dry_run else run.write)
    members = run.counts.members | ({"conflicts": None} if dry_run else {})
    shown = {"topic": topic, "namespace": gateway.namespace, "dry_run": dry_run, **members}
    sys.stdout.write((json.dumps(shown) if as_json else "\n".join(_lines(run.counts, dry_run))) + "\n")
    if run.counts.left:
        raise OncegateError(f"{run.counts.left} rows were held back by claims: run the same command again later")


def _order(
    source: Path, topic: str, id_col: list[str], digest_col: list[str], id_set: str | None, on_conflict: OnConflict
) -> "Order":
    """Builds the replay order: files, topic and columns. Raises BadRequest unless every file has the named columns."""
    from oncegate.verifier.replay import Order
    from oncegate.verifier.sources.inputs import inputs_of

    inputs = inputs_of(source, "the source")
    for source_input in inputs:
        source_input.check(id_col, "--id-col")
        source_input.check(digest_col, "--digest-col")
    drops = on_conflict is OnConflict.DROP
    return Order(inputs, topic, topic if id_set is None else id_set, id_col, digest_col, drops)


def _with_schema(order: "Order", gateway: RunningGateway) -> "Order":
    """Returns the order with its files read in the topic's column types.

    Raises OncegateError if the topic does not exist, or the namespace is in shadow mode, which drops no row.
    """
    import pyarrow as pa

    if gateway.ask_about("")["shadow"]:
        raise BadRequest("the namespace is in shadow mode, which drops nothing: each row would be written once more")
    # The first write creates a topic: under a misspelt name every row would be new.
    schema_text = gateway.ask_about(f"/topics/{quote(order.topic, safe='')}")["schema_ipc"]
    schema = None if schema_text is None else pa.ipc.read_schema(pa.py_buffer(base64.b64decode(schema_text)))
    return replace(order, given=[source_input.typed(schema) for source_input in order.given])


def _check_known(run: "Replay", order: "Order", namespace: str) -> None:
    """Raises BadRequest if the ledger knows none of the rows."""
    if not _with_bar(run, True, run.knows_some):
        raise BadRequest(
            f"none of the rows is known in the set {order.id_set!r} of namespace {namespace}, and nothing was written: "
            "under a misspelt --id-set or --id-col, or where ids are forgotten, each would be written once more; if "
            "the job wrote nothing, say --allow-none-known"
        )


def _with_bar(run: "Replay", dry_run: bool, step: Callable[["ReportStep"], Ran]) -> Ran:
    """Runs a step with a progress bar. Raises OncegateError with the cause and the progress so far."""
    try:
        with steps() as report_step:
            return step(report_step)
    except OncegateError as error:
        counts = run.counts
        kept = "nothing was written" if dry_run else "what is written stays, and the same command goes on"
        raise OncegateError(
            f"{error.detail}; it came to {run.place}, with {counts.written} rows written and {counts.duplicates} "
            f"dropped as duplicates: {kept}"
        ) from error


def _lines(counts: "ReplayCounts", dry_run: bool) -> list[str]:
    """Formats the counts for people, with a line for each kind of row that needs attention."""
    if dry_run:
        first = f"{counts.rows} rows read: {counts.written} would be written, {counts.duplicates} are duplicates"
        lines = [f"{first}; whether contents differ is not looked at"]
        if counts.written == counts.rows > 0:
            lines.append("none of the rows is known: is it this set of ids, or are they forgotten?")
    else:
        first = f"{counts.rows} rows read: {counts.written} written, {counts.duplicates} dropped as duplicates"
        lines = [f"{first}, {counts.conflicts} conflicts"]
    lines_by_member = {
        "conflicts were left out: their ids are written with other content": 0 if dry_run else counts.conflicts,
        "rows are older than what is still known, and were left out": counts.stale,
        "rows are held by open claims: neither written nor dropped": counts.held,
        "rows are in doubt: say whether they were written (oncegate resolve)": counts.in_doubt,
        "rows were claimed by somebody whose lease ran out, who may have written them too": counts.taken_over,
        "rows passed unchecked while the ledger was down: they may be there twice": counts.unchecked,
    }
    return lines + [f"{count} {words}" for words, count in lines_by_member.items() if count]
