"""Defines `oncegate export` and `oncegate import`, which copy known ids between ledgers in a Parquet file."""

import asyncio
import json
import os
import sys
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from oncegate.cli.options import (
    AsJsonOption,
    DataOption,
    NamespaceOption,
    ReasonOption,
    WhoOption,
    WitnessOption,
    note,
)
from oncegate.cli.progress import counted, steps
from oncegate.cli.refusals import refusing
from oncegate.cli.requests import HERE, RunningGateway, asking
from oncegate.core.errors import BadRequest, NotFound, OncegateError

if TYPE_CHECKING:
    from oncegate.index.shard import ShardIndex
    from oncegate.ledgers.log.admin.verify import VerifiedLedger

    Write = Callable[[ShardIndex, bytes, bytes], None]

LedgerUrlOption = Annotated[
    str | None,
    typer.Option("--ledger", help="A ledger's URL instead of a folder: kafka:// or log:.", show_default=False),
]
_ELSEWHERE = (
    "a ledger {scheme}: is not exported: it is moved whole, by what its server has for that (docs/redis.md); "
    "nothing was written"
)
ToOption = Annotated[Path, typer.Option(help="The file to write; it is written completely or not at all.")]
IdsOnlyOption = Annotated[bool, typer.Option("--ids-only", help="Leave out existing topics, batches and producers.")]
WithoutOpenOption = Annotated[
    bool, typer.Option("--without-open-claims", help="Leave out ids under a claim: elsewhere they are free.")
]
# Keys of the file's metadata.
FORMAT, KEY, SOURCE = b"oncegate.format", b"oncegate.key", b"oncegate.source"
VERSION = b"1"


def export(
    to: ToOption,
    data: DataOption = Path("data"),
    ledger: LedgerUrlOption = None,
    namespace: NamespaceOption = "default",
    witness: WitnessOption = None,
    ids_only: IdsOnlyOption = False,
    without_open_claims: WithoutOpenOption = False,
    as_json: AsJsonOption = False,
) -> None:
    """Export the ids that a namespace knows, done and taken, from a ledger on disk or on Kafka into one Parquet file.

    Takes no lock: the gateway may be running. Ids that it writes meanwhile may be missing, so drain it first to move.
    The file holds the namespace's key, like a backup: protect it like one. `oncegate import` reads it into any ledger.

    Example: oncegate export --data data --namespace orders --to orders.parquet
    """
    with refusing():
        if to.is_dir() or not to.absolute().parent.is_dir():
            raise BadRequest(f"--to {to}: it is a folder, or lies in none; nothing was written")
        counts: list[int] = []

        def write(index: "ShardIndex", key: bytes, ledger_id: bytes) -> None:
            _check(index, ids_only, without_open_claims)
            counts.append(_write(to, index, key, ledger_id))

        from oncegate.ledgers import parse_url

        scheme, location = ("log", str(data)) if ledger is None else parse_url(ledger)
        if scheme == "kafka":
            asyncio.run(_of_kafka(location, namespace, write))
        elif scheme == "log":
            _of_disk(Path(location), witness, namespace, write)
        else:
            raise BadRequest(_ELSEWHERE.format(scheme=scheme))
        members = {"namespace": namespace, "ids": counts[0], "file": str(to)}
        sys.stdout.write(msgspec.json.encode(members).decode() + "\n" if as_json else f"{counts[0]} ids are in {to}\n")


def _of_disk(data: Path, witness: str | None, namespace: str, write: "Write") -> None:
    from oncegate.ledgers import log
    from oncegate.ledgers.log.data_dir import Refused

    def verified(ledger: "VerifiedLedger") -> None:
        index = asyncio.run(_index_of(ledger.batches(), ledger.key, ledger.mark.ledger))
        write(index, ledger.key, ledger.mark.ledger)

    with counted("exporting", data, times=2) as disk:
        result = next(log.verify(str(data), witness, disk, verified, only=namespace), None)
        if result is None:
            raise NotFound(f"namespace {namespace} of {data} was deleted meanwhile; nothing was written")
        if isinstance(result, Refused):
            raise result.error


async def _of_kafka(location: str, namespace: str, write: "Write") -> None:
    # Imported here: the Kafka client is an extra, and its import takes a quarter of a second.
    try:
        from oncegate.ledgers.kafka.followed import read_now
    except ModuleNotFoundError as error:
        raise BadRequest(f"a ledger on Kafka needs {error.name}: pip install 'oncegate[kafka]'") from error
    async with read_now(location, namespace) as read:
        index = await _index_of(read.batches, read.key, read.ledger)
    await asyncio.to_thread(write, index, read.key, read.ledger)


async def _index_of(batches: Any, key: bytes, ledger: bytes) -> "ShardIndex":
    # Imported here: the import of numba takes a second.
    from oncegate.engine.commit.marks import Marks
    from oncegate.engine.recovery.replay import replay
    from oncegate.hashing.keys import key_check
    from oncegate.index.shard import ShardIndex

    index = ShardIndex()
    await replay(index, batches, Marks(ledger), key_check(key), 0)
    return index


def _check(index: "ShardIndex", ids_only: bool, without_open: bool) -> None:
    """Raises BadRequest for content that an id file cannot hold, unless its omission is permitted."""
    others = {kind: count for kind, count in index.held().items() if kind != "ids"}
    if others and not ids_only:
        listed = ", ".join(f"{count} {kind}" for kind, count in others.items())
        raise BadRequest(f"there are {listed}, which are not exported: say --ids-only; nothing was written")
    if forgotten := index.id_sets.forgotten_sets:
        names = ", ".join(map(repr, forgotten))
        raise BadRequest(
            f"sets {names} of ids were forgotten as a whole, and another ledger would know their ids by what they were "
            "before: move the whole ledger instead; nothing was written"
        )
    if index.claims.open_claims and not without_open:
        raise BadRequest(
            f"{index.claims.open_claims} claims are open, and whether their ids are written nobody has said: drain the "
            "gateway, resolve them, or say --without-open-claims; nothing was written"
        )
    if index.claims.archives.live:
        raise BadRequest(
            f"{index.claims.archives.ids} ids have left memory, and those are not exported: move the whole ledger "
            "(oncegate backup); nothing was written"
        )


def _write(to: Path, index: "ShardIndex", key: bytes, ledger: bytes) -> int:
    """Writes all ids to a temporary file, syncs it and renames it to `to`; returns the number of ids.

    Raises OncegateError if that fails; the temporary file is removed and `to` is unchanged.
    """
    part = to.with_name(to.name + ".part")
    try:
        part.unlink(missing_ok=True)
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        count = _written(descriptor, index, {FORMAT: VERSION, KEY: key.hex().encode(), SOURCE: ledger.hex().encode()})
        os.replace(part, to)
    except OSError as error:
        # An OSError would be reported as an error of the ledger's folder.
        raise OncegateError(f"{to}: {error.strerror or error}; nothing was written") from error
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)
    return count


def _written(descriptor: int, index: "ShardIndex", metadata: dict[bytes, bytes]) -> int:
    import pyarrow.parquet as pq

    count = 0
    with os.fdopen(descriptor, "wb") as file:
        with pq.ParquetWriter(file, _schema().with_metadata(metadata)) as writer:
            for table in _tables(index):
                writer.write_table(table.replace_schema_metadata(metadata))
                count += len(table)
        file.flush()
        os.fsync(file.fileno())
    return count


def _tables(index: "ShardIndex") -> Iterator[Any]:
    import pyarrow as pa

    from oncegate.index.claims.lookup import listed

    for some in listed(index.claims):
        if not len(some.ids):
            continue
        ids = pa.array([row.tobytes() for row in some.ids], pa.binary(16))
        owners = pa.array([row.tobytes() if row.any() else None for row in some.owners], pa.binary(16))
        digests = pa.array(some.digests, mask=some.digests == 0)
        since = pa.array(some.wall_ms, pa.timestamp("ms", "UTC"))
        yield pa.table([ids, owners, digests.cast(pa.uint32()), since], _schema())


def _schema() -> Any:
    import pyarrow as pa

    from oncegate.transports.decode.ids import IMPORT_SCHEMA

    return IMPORT_SCHEMA.append(pa.field("since", pa.timestamp("ms", "UTC")))


FileArgument = Annotated[Path, typer.Argument(help="A file written by `oncegate export`.")]
IntoOption = Annotated[str, typer.Option("--namespace", help="Where; created with the file's key if missing.")]
# Half of the default maximum of a request.
IDS_AT_ONCE = 50_000
_SAID = {"why": "reason", "who": "who"}


@partial(asking, of_namespace=False)
def take_in(
    file: FileArgument,
    namespace: IntoOption,
    reason: ReasonOption,
    who: WhoOption = None,
    gateway: RunningGateway = HERE,
    as_json: AsJsonOption = False,
) -> None:
    """Import ids that another ledger knows into a namespace, on any kind of ledger.

    A done id is answered DUPLICATE from then on, a taken one belongs to its owner; each is kept for a whole horizon
    from now. The namespace must be new, or have the same key. Interrupted, the same command resumes: known ids are
    unchanged.

    Example: oncegate import orders.parquet --namespace orders --reason "moved to Kafka"
    """
    import pyarrow.parquet as pq

    try:
        source = pq.ParquetFile(file)
    except (ValueError, OSError) as error:
        raise BadRequest(f"{file} cannot be read as Parquet: {error}; nothing was imported") from error
    said = source.schema_arrow.metadata or {}
    if said.get(FORMAT) != VERSION:
        raise BadRequest(f"{file} is none that `oncegate export` of this version writes; nothing was imported")
    noted, limits = note(reason, who), gateway.ask("v1/limits")
    if long := [name for name, text in noted.items() if len(text.encode()) > limits["name_bytes"]]:
        raise BadRequest(f"--{_SAID[long[0]]} is longer than {limits['name_bytes']} bytes; nothing was imported")
    path = f"v1/namespaces/{urllib.parse.quote(namespace, safe='')}"
    gateway.ask(path, {"key": said[KEY].decode()}, "PUT")
    query = urllib.parse.urlencode(noted)
    done = new = 0
    with steps() as moved:
        for batch in _batches(file, source, min(IDS_AT_ONCE, limits["ids_per_request"])):
            answer = gateway.ask_about(f"/ids:import?{query}", _stream(batch))
            new, done = new + answer["imported"], done + len(batch)
            moved("ids", done, source.metadata.num_rows)
    members = {"namespace": namespace, "ids": done, "imported": new}
    line = f"{done} ids are known in {namespace}, {new} of them from now on"
    sys.stdout.write((json.dumps(members) if as_json else line) + "\n")


def _batches(file: Path, source: Any, rows: int) -> Iterator[Any]:
    """Yields the ids in batches of `rows`. Raises BadRequest if the file is damaged or truncated."""
    import pyarrow as pa

    try:
        yield from source.iter_batches(rows, columns=["id", "owner", "digest"])
    except (pa.ArrowException, OSError) as error:
        raise BadRequest(f"{file} cannot be read to its end: {error}; what was imported stays") from error


def _stream(batch: Any) -> bytes:
    import pyarrow as pa

    from oncegate.transports.decode.ids import IMPORT_SCHEMA

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, IMPORT_SCHEMA) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(batch.columns, schema=IMPORT_SCHEMA))
    return bytes(sink.getvalue())
