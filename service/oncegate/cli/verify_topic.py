"""Compares a topic with its input and the ledger; prints the report as a table or JSON, and draws a picture."""

import ssl
import sys
from collections.abc import Sequence
from html import escape as escape_xml
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from oncegate.cli.progress import steps
from oncegate.cli.tables import column, table_of
from oncegate.core.errors import BadRequest
from oncegate.engine.names import check_namespace

if TYPE_CHECKING:
    from oncegate.verifier.question import VerifyQuestion
    from oncegate.verifier.report import IdFinding, VerifyReport


class VerifyOptions(NamedTuple):
    """The options of a comparison, as given on the command line."""

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
        """Returns whether any option was given that requires --against."""
        options = (
            self.given,
            self.id_col,
            self.id_set,
            self.output,
            self.output_id,
            self.state,
            self.repair,
            self.picture,
        )
        return any((*options, self.registry, self.registry_ca))


def verify_topic(options: VerifyOptions, as_json: bool, trusted: ssl.SSLContext | None = None) -> None:
    """Runs the comparison and prints the report; exits with status 1 unless everything is OK.

    `trusted`: TLS context of an https address. Raises BadRequest for options that do not fit together.
    """
    question = _question(options)
    # Imported here: pyarrow's file readers take a moment to import.
    from oncegate.verifier.report import as_json as json_of
    from oncegate.verifier.verify import verify

    folder = options.state or Path(f"{question.topic}.verify")
    with steps() as progress:
        report = verify(question, folder, options.repair, options.rows, progress, trusted)
    if as_json:
        sys.stdout.write(json_of(report) + "\n")
    else:
        _show(question, report)
    # Last, so that a picture that cannot be written does not lose the report.
    if options.picture is not None:
        options.picture.write_text(picture_of(question.topic, report.lines))
    if not report.ok:
        raise typer.Exit(1)


def _question(options: VerifyOptions) -> "VerifyQuestion":
    from oncegate.verifier.question import VerifyQuestion

    if options.given is None or not options.id_col or not options.against:
        raise BadRequest("--against TOPIC needs --input FILE and --id-col COLUMN")
    if bool(options.output) != bool(options.output_id):
        raise BadRequest("--output kafka://HOST:PORT/TOPIC and --output-id, where its records have the id, go together")
    if options.registry and not options.output:
        raise BadRequest("--registry knows the values of Kafka's records, and goes with --output and --output-id")
    if options.registry_ca and not options.registry:
        raise BadRequest("--registry-ca goes with --registry URL")
    if not options.given.is_file():
        raise BadRequest(f"--input {options.given} is not a file")
    if options.picture is not None and (options.picture.is_dir() or not options.picture.parent.is_dir()):
        raise BadRequest(f"--picture {options.picture}: it is a folder, or lies in none")
    check_namespace(options.namespace)
    id_set = options.against if options.id_set is None else options.id_set
    where = options.url, options.namespace, options.against, id_set, options.output, options.output_id
    return VerifyQuestion(options.given, tuple(options.id_col), *where, options.registry, options.registry_ca)


def _show(question: "VerifyQuestion", report: "VerifyReport") -> None:
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


def _remarks(report: "VerifyReport") -> list[str]:
    """Returns remarks to print below the report, one line each."""
    remarks = []
    if report.repeated:
        remarks.append(f"{report.repeated} rows of the input repeat an id that stood there before")
    if report.doubled_rows:
        remarks.append(f"{report.doubled_rows} rows of the output are one too many")
    if report.foreign_rows:
        remarks.append(f"{report.foreign_rows} rows of the output are foreign")
    if report.without_id:
        remarks.append(f"{report.without_id} rows of the output have no id")
    for partition, low in report.trimmed.items():
        remarks.append(f"partition {partition} begins at offset {low}: rows before it are gone, and count as missing")
    if report.repaired is not None:
        done = report.repaired
        remarks.append(f"repaired: {done['written']} rows were written; verify again to see them")
        if done["refused"]:
            remarks.append(f"refused: {done['refused']} rows, which the ledger knows as written: nothing was doubled")
        if done["held"]:
            remarks.append(f"held: {done['held']} rows, of which an open claim holds the id: run it again later")
    return remarks


def _named(name: str, findings: "list[IdFinding]") -> Table:
    table = table_of("id", "row of the input", "partition:offset", title=name.replace("_", " "))
    for example in findings:
        shown = example.id if isinstance(example.id, str) else " ".join(example.id)
        locations = ", ".join(f"{location.partition}:{location.offset}" for location in example.places)
        table.add_row(escape(shown), "" if example.row is None else str(example.row), locations)
    return table


_WIDTH, _BAR_X, _ROW = 900, 170, 44
_OK, _WRONG = "#2e7d32", "#c62828"


def picture_of(title: str, lines: Sequence[tuple[str, int, str]]) -> str:
    """Draws a bar for each (name, count, meaning), scaled to the largest count; the first bar is the good one."""
    most = max([count for _, count, _ in lines] + [1])
    bars = "".join(_bar(number, most, *line) for number, line in enumerate(lines))
    height = 60 + _ROW * len(lines)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" font-family="sans-serif">'
        f'<rect width="100%" height="100%" fill="white"/><text x="16" y="32" font-size="20">{escape_xml(title)}</text>'
        f"{bars}</svg>\n"
    )


def _bar(number: int, most: int, name: str, count: int, meaning: str) -> str:
    y = 60 + _ROW * number
    # A single id among millions must be visible too.
    length = 0 if count == 0 else max(3, count * (_WIDTH - _BAR_X - 130) // most)
    shown = escape_xml(name.replace("_", " "))
    return (
        f'<text x="16" y="{y + 15}" font-size="15">{shown}</text>'
        f'<rect x="{_BAR_X}" y="{y}" width="{length}" height="18" fill="{_WRONG if number else _OK}"/>'
        f'<text x="{_BAR_X + length + 8}" y="{y + 15}" font-size="15">{count:,}</text>'
        f'<text x="{_BAR_X}" y="{y + 34}" font-size="12" fill="#555">{escape_xml(meaning)}</text>'
    )
