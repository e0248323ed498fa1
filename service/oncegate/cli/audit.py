"""Defines the verb `oncegate audit`, which needs no gateway."""

import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Column, Table

from oncegate.cli.options import AsJsonOption, IdColOption, RegistryCaOption, RegistryUrlOption
from oncegate.cli.progress import steps
from oncegate.cli.refusals import refusing
from oncegate.core.errors import BadRequest

if TYPE_CHECKING:
    from oncegate.verifier.audit.report import AuditCounts

SourceArgument = Annotated[
    str, typer.Argument(help="A file or folder (.parquet, .arrow, .csv, .ndjson), or kafka://HOST:PORT/TOPIC.")
]
IdOption = Annotated[
    str,
    typer.Option(
        "--id", help="Where records of a topic have it: key, header:NAME, or json:, arrow:, avro:, protobuf:NAME."
    ),
]
TimeColOption = Annotated[
    str, typer.Option(help="A table's column that says when a row was written; a topic's records have it.")
]
AttemptOption = Annotated[str, typer.Option(help="The column, or the header, that names the attempt that wrote a row.")]
BatchOption = Annotated[str, typer.Option(help="The column, or the header, that names the batch it was written in.")]


def audit(
    source: SourceArgument,
    id_col: IdColOption = [],  # noqa: B006, never changed
    id: IdOption = "key",
    time_col: TimeColOption = "",
    attempt: AttemptOption = "",
    batch: BatchOption = "",
    as_json: AsJsonOption = False,
    registry: RegistryUrlOption = "",
    registry_ca: RegistryCaOption = None,
) -> None:
    """Count the duplicates in rows that are there already: how many, how old, why, and what horizons would catch.

    Reads each row once; asks no gateway and writes nothing but a temporary folder. A topic is read as it is committed.

    Example: oncegate audit departures.parquet --id-col flight --time-col written_at

    Example: oncegate audit kafka://broker:9092/orders --id json:order --attempt oncegate-producer
    """
    with refusing():
        if source.startswith("kafka://"):
            if id_col or time_col:
                raise BadRequest(
                    "--id-col and --time-col are of tables: of a topic --id says where its records have the id"
                )
            counts = _of_topic(source, id, attempt, batch, registry, registry_ca)
        elif registry or registry_ca:
            raise BadRequest("--registry knows the values of Kafka's records, and a table has columns: leave it out")
        else:
            counts = _of_table(source, id_col, time_col, attempt, batch)
        if as_json:
            sys.stdout.write(msgspec.json.encode(counts.members).decode() + "\n")
        else:
            _show(source, counts)


def _of_topic(
    source: str, form: str, attempt: str, batch: str, registry: str, registry_ca: Path | None
) -> "AuditCounts":
    from oncegate.verifier.audit.count import count
    from oncegate.verifier.audit.table import TopicRows
    from oncegate.verifier.sources.kafka_ids import SchemaRegistry, ids_of

    if registry_ca and not registry:
        raise BadRequest("--registry-ca goes with --registry URL")
    ids = ids_of(form, SchemaRegistry(registry, registry_ca) if registry else None)
    with steps() as report_step, closing(TopicRows(source, ids, attempt, batch)) as topic:
        return count(topic, report_step)


def _of_table(source: str, id_col: list[str], time_col: str, attempt: str, batch: str) -> "AuditCounts":
    from oncegate.verifier.audit.count import count
    from oncegate.verifier.audit.table import TableRows

    if not id_col:
        raise BadRequest("--id-col names the column that is the id; nothing was read")
    with steps() as report_step:
        return count(TableRows(Path(source), id_col, time_col, attempt, batch), report_step)


def _show(source: str, counts: "AuditCounts") -> None:
    console = Console()
    share = f" ({counts.duplicates / counts.rows:.2%})" if counts.rows else ""
    console.print(
        f"{source}: {counts.rows:,} rows, {counts.ids:,} ids, {counts.duplicates:,} duplicates{share}",
        highlight=False,
        soft_wrap=True,
    )
    if counts.without_id:
        console.print(
            f"{counts.without_id:,} rows have no id, null or empty: they are nobody's duplicates",
            highlight=False,
            soft_wrap=True,
        )
    if not counts.duplicates:
        return
    repeats = f"{counts.repeated_ids:,} ids come again, one of them in {counts.most_copies:,} rows"
    console.print(repeats, highlight=False, soft_wrap=True)
    titles = {
        "how long after the first of their id": counts.ages,
        "why they came": counts.causes,
        "a horizon of so long would have caught at least": counts.caught,
    }
    for title, numbers in titles.items():
        if numbers is None:
            continue
        table = Table("", Column("duplicates", justify="right"), title=title)
        for name, number in numbers.items():
            table.add_row(name.lower().replace("_", " "), f"{number:,}")
        console.print(table)
    if counts.ages is None:
        console.print("how old they are is not known: name --time-col", highlight=False, soft_wrap=True)
    if counts.causes is None:
        console.print("why they came is not known: name --attempt, and --batch", highlight=False, soft_wrap=True)
