"""Defines the verb `oncegate verify`, and which of its options go together."""

from pathlib import Path
from typing import Annotated

import typer

from oncegate.cli.ledger import WitnessOption
from oncegate.cli.operating.options import AsJsonLinesOption, RegistryCaOption, RegistryUrlOption, TopicIdsOption
from oncegate.cli.refusals import refusing
from oncegate.cli.running.requests import CaOption, CertificateOption, UrlOption, trusted
from oncegate.cli.serve import DataOption
from oncegate.cli.verify.against import VerifyOptions, verify_topic
from oncegate.cli.verify.ledger import verify_ledger
from oncegate.core.errors import BadRequest

AgainstOption = Annotated[
    str | None, typer.Option(help="The topic that the input was written to, by the gateway's name.")
]
InputOption = Annotated[
    Path | None, typer.Option("--input", help="What was to be written: .parquet, .arrow, .csv, .ndjson.")
]
IdColOption = Annotated[list[str], typer.Option(help="The input's column that is the id; once for each of several.")]
NamespaceOption = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        help="Of a ledger's files: this one's alone. Of a topic: whose it is.  [default: all; default]",
    ),
]
OutputOption = Annotated[
    str, typer.Option(help="kafka://HOST:PORT/TOPIC, where rows lie there and not in the gateway.")
]
OutputIdOption = Annotated[
    str,
    typer.Option(help="Where records have the id: key, header:NAME, or json:, arrow:, avro: or protobuf:NAME[,NAME]."),
]
StateOption = Annotated[
    Path | None, typer.Option(help="Folder for what is done, to go on there.  [default: ./TOPIC.verify]")
]
RepairOption = Annotated[bool, typer.Option("--repair", help="Have the gateway write what is missing, from the input.")]
PictureOption = Annotated[Path | None, typer.Option(help="Draw the counts there, as SVG.")]
RowsOption = Annotated[int, typer.Option(min=0, max=100_000, help="Ids of each kind that are named.")]


def verify(
    data: DataOption = None,
    witness: WitnessOption = None,
    as_json: AsJsonLinesOption = False,
    against: AgainstOption = None,
    input_file: InputOption = None,
    id_col: IdColOption = [],  # noqa: B006, never changed
    url: UrlOption = "http://127.0.0.1:8080",
    namespace: NamespaceOption = None,
    id_set: TopicIdsOption = None,
    output: OutputOption = "",
    output_id: OutputIdOption = "",
    state: StateOption = None,
    repair: RepairOption = False,
    picture: PictureOption = None,
    rows: RowsOption = 20,
    ca: CaOption = None,
    certificate: CertificateOption = None,
    registry: RegistryUrlOption = "",
    registry_ca: RegistryCaOption = None,
) -> None:
    """Read a ledger and see that it is whole; with --against, compare a topic with its input and the ledger.

    Of a ledger: lists, witness, frames, rows, and what the entries add up to. Owns nothing: the gateway may be
    running. One that is damaged is named, and the others are read. Status 1: one is.

    With --against it asks a running gateway, and says which ids are missing, not written, doubled, held, unrecorded
    or foreign. Status 0: none is. An interrupted run goes on with the same command.

    Example: oncegate verify --data ./data --json

    Example: oncegate verify --against orders --input orders.parquet --id-col order
    """
    kafka = output, output_id, state, repair, picture, rows, registry, registry_ca
    options = VerifyOptions(against, input_file, id_col, url, namespace or "default", id_set, *kafka)
    with refusing():
        if against is None:
            if options.more_than_an_address:
                raise BadRequest("--input, --id-col and what goes with them need --against TOPIC")
            verify_ledger(data or Path("data"), witness, namespace, as_json)
        elif data is not None or witness is not None:
            raise BadRequest("--against asks a running gateway (--url): --data and --witness are of a ledger's files")
        else:
            verify_topic(options, as_json, trusted(url, ca, certificate))
