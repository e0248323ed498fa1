"""Defines the verb `oncegate verify`, which checks the files of a ledger, or a topic against its input."""

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from oncegate.cli.options import (
    AsJsonLinesOption,
    IdColOption,
    RegistryCaOption,
    RegistryUrlOption,
    TopicIdsOption,
    WitnessOption,
)
from oncegate.cli.progress import counted
from oncegate.cli.refusals import going_past, refusing
from oncegate.cli.requests import CaOption, CertificateOption, RunningGateway, UrlOption
from oncegate.cli.serve import ServeDataOption
from oncegate.cli.verify_topic import VerifyOptions, verify_topic
from oncegate.core.errors import BadRequest, OncegateError

if TYPE_CHECKING:
    from oncegate.ledgers.log.admin.verify import Verified, VerifiedLedger

AgainstOption = Annotated[
    str | None, typer.Option(help="The topic that the input was written to, by its name in the gateway.")
]
InputOption = Annotated[
    Path | None, typer.Option("--input", help="The input that was to be written: .parquet, .arrow, .csv, .ndjson.")
]
VerifyNamespaceOption = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        help="Of a ledger's files: this one's alone. Of a topic: whose it is.  [default: all; default]",
    ),
]
OutputOption = Annotated[
    str, typer.Option(help="kafka://HOST:PORT/TOPIC, if the rows are there and not in the gateway.")
]
OutputIdOption = Annotated[
    str,
    typer.Option(help="Where records have the id: key, header:NAME, or json:, arrow:, avro: or protobuf:NAME[,NAME]."),
]
StateOption = Annotated[
    Path | None, typer.Option(help="Folder for progress, to resume from.  [default: ./TOPIC.verify]")
]
RepairOption = Annotated[bool, typer.Option("--repair", help="Write missing rows from the input through the gateway.")]
PictureOption = Annotated[Path | None, typer.Option(help="Draw the counts there, as SVG.")]
RowsOption = Annotated[int, typer.Option(min=0, max=100_000, help="How many ids of each kind to name.")]


def verify(
    data: ServeDataOption = None,
    witness: WitnessOption = None,
    as_json: AsJsonLinesOption = False,
    against: AgainstOption = None,
    input_file: InputOption = None,
    id_col: IdColOption = [],  # noqa: B006, never changed
    url: UrlOption = "http://127.0.0.1:8080",
    namespace: VerifyNamespaceOption = None,
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
    """Verify the files of a ledger; with --against, compare a topic with its input and the ledger.

    The check of a ledger covers lists, witness, frames, rows, and the consistency of its entries. It takes no lock: the
    gateway may be running. A damaged ledger is named, and the others are read. Status 1: one is damaged.

    With --against it calls a running gateway, and reports which ids are missing, not written, doubled, held, unrecorded
    or foreign. Status 0: none is. An interrupted run resumes with the same command.

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
            verify_topic(options, as_json, RunningGateway(url, options.namespace, ca, certificate).trusted())


def verify_ledger(data: Path, witness: str | None, namespace: str | None, as_json: bool) -> None:
    """Prints a line for each ledger of the data folder, or of one namespace; exits with status 1 if any ledger is
    damaged.
    """
    from oncegate.ledgers import log

    with refusing(), counted("verifying", data, times=2) as disk:
        try:
            results = log.verify(str(data), witness, disk, _rebuild, namespace)
            going_past(results, lambda verified: (_line(verified), _members(verified)), as_json)
        except OncegateError as error:
            if as_json:
                sys.stdout.write(msgspec.json.encode({"ok": False, "detail": error.detail}).decode() + "\n")
            raise


def _rebuild(ledger: "VerifiedLedger") -> None:
    """Raises LedgerDamaged or KeyMismatch unless an index can be rebuilt from the entries."""
    # Imported here: the import of numba takes a second.
    from oncegate.engine.commit.marks import Marks
    from oncegate.engine.recovery.replay import replay
    from oncegate.hashing.keys import key_check
    from oncegate.index.shard import ShardIndex

    marks, check = Marks(ledger.mark.ledger), key_check(ledger.key)
    asyncio.run(replay(ShardIndex(), ledger.batches(), marks, check, 0))


def _line(verified: "Verified") -> str:
    compacted = f", compacted up to {verified.compacted}" if verified.compacted else ""
    return (
        f"{verified.namespace}: whole up to position {verified.position}{compacted}; "
        f"{verified.segments} segments, {verified.ranges} ranges of {verified.range_bytes} bytes; "
        f"ledger {verified.ledger.hex()}"
    )


def _members(verified: "Verified") -> dict[str, object]:
    return {
        "ok": True,
        "namespace": verified.namespace,
        "ledger": verified.ledger.hex(),
        "position": verified.position,
        "collected": verified.compacted,
        "segments": verified.segments,
        "ranges": verified.ranges,
        "range_bytes": verified.range_bytes,
    }
