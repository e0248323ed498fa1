"""Compares a topic with its input and the ledger, and prints what is found: a table, one JSON object, a picture."""

import ssl
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from oncegate.cli.progress import steps
from oncegate.cli.running.tables import column, table_of
from oncegate.cli.verify.picture import picture_of
from oncegate.core.errors import BadRequest
from oncegate.engine.names import check_namespace

if TYPE_CHECKING:
    from oncegate.verifier.question import Question
    from oncegate.verifier.report import Finding, Report


class Asked(NamedTuple):
    """Holds the options of a comparison as they were given."""

    against: str | None
    given: Path | None
    id_col: list[str]
    url: str
    namespace: str
    id_set: str | None
    output: str
    output_id: str
    state: Path | None
    repair: bool
    picture: Path | None
    rows: int
    registry: str
    registry_ca: Path | None

    @property
    def more_than_an_address(self) -> bool:
        """Tells whether an option was given that means something with --against alone."""
        given = self.given, self.id_col, self.id_set, self.output, self.output_id, self.state, self.repair, self.picture
        return any((*given, self.registry, self.registry_ca))


def verify_topic(asked: Asked, as_json: bool, trusted: ssl.SSLContext | None = None) -> None:
    """Compares, prints, and ends with status 1 unless all is OK. Raises what is wrong with the options.

    `trusted`: by whose certificates an https address is.
    """
    question = _question(asked)
    # pyarrow's readers of files take a moment to import, and no other verb needs them.
    from oncegate.verifier.report import as_json as json_of
    from oncegate.verifier.verify import verify

    folder = asked.state or Path(f"{question.topic}.verify")
    with steps() as progress:
        report = verify(question, folder, asked.repair, asked.rows, progress, trusted)
    if as_json:
        sys.stdout.write(json_of(report) + "\n")
    else:
        _show(question, report)
    # Last: a picture that cannot be drawn costs no report.
    if asked.picture is not None:
        asked.picture.write_text(picture_of(question.topic, report.lines))
    if not report.ok:
        raise typer.Exit(1)


def _question(asked: Asked) -> "Question":
    from oncegate.verifier.question import Question

    if asked.given is None or not asked.id_col or not asked.against:
        raise BadRequest("--against TOPIC needs --input FILE and --id-col COLUMN")
    if bool(asked.output) != bool(asked.output_id):
        raise BadRequest("--output kafka://HOST:PORT/TOPIC and --output-id, where its records have the id, go together")
    if asked.registry and not asked.output:
        raise BadRequest("--registry knows the values of Kafka's records, and goes with --output and --output-id")
    if asked.registry_ca and not asked.registry:
        raise BadRequest("--registry-ca goes with --registry URL")
    if not asked.given.is_file():
        raise BadRequest(f"--input {asked.given} is no file")
    if asked.picture is not None and (asked.picture.is_dir() or not asked.picture.parent.is_dir()):
        raise BadRequest(f"--picture {asked.picture}: it is a folder, or lies in none")
    check_namespace(asked.namespace)
    id_set = asked.against if asked.id_set is None else asked.id_set
    where = asked.url, asked.namespace, asked.against, id_set, asked.output, asked.output_id
    return Question(asked.given, tuple(asked.id_col), *where, asked.registry, asked.registry_ca)


def _show(question: "Question", report: "Report") -> None:
    console = Console()
    title = f"{question.topic}: {report.input_rows} rows of input, {report.output_rows} of output"
    table = table_of("ids are", column("ids", justify="right"), "which means", title=escape(title))
    for name, count, meaning in report.lines:
        table.add_row(name.replace("_", " "), str(count), meaning)
    console.print(table)
    for line in _remarks(report):
        console.print(line, highlight=False)
    for name, findings in report.findings.items():
        if findings:
            console.print(_named(name, findings))
    if report.ok:
        console.print("all is well")


def _remarks(report: "Report") -> list[str]:
    """What else is to be said, a line each."""
    found = []
    if report.repeated:
        found.append(f"{report.repeated} rows of the input repeat an id that stood there before")
    if report.doubled_rows:
        found.append(f"{report.doubled_rows} rows of the output are one too many")
    if report.foreign_rows:
        found.append(f"{report.foreign_rows} rows of the output are foreign")
    if report.without_id:
        found.append(f"{report.without_id} rows of the output have no id")
    for partition, low in report.trimmed.items():
        found.append(f"partition {partition} begins at offset {low}: rows before it are gone, and count as missing")
    if report.repaired is not None:
        done = report.repaired
        found.append(f"repaired: {done['written']} rows were written; verify again to see them")
        if done["refused"]:
            found.append(f"refused: {done['refused']} rows, which the ledger knows as written: nothing was doubled")
        if done["held"]:
            found.append(f"held: {done['held']} rows, of which an open claim holds the id: run it again later")
    return found


def _named(name: str, findings: "list[Finding]") -> Table:
    table = table_of("id", "row of the input", "partition:offset", title=name.replace("_", " "))
    for one in findings:
        shown = one.id if isinstance(one.id, str) else " ".join(one.id)
        places = ", ".join(f"{place.partition}:{place.offset}" for place in one.places)
        table.add_row(escape(shown), "" if one.row is None else str(one.row), places)
    return table
