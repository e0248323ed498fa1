"""Defines the verb `oncegate import`: what `oncegate export` has written, into a namespace of a running gateway."""

import json
import sys
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from oncegate.cli.carry.export import FORMAT, KEY, VERSION
from oncegate.cli.operating.options import AsJsonOption, ReasonOption, WhoOption, note
from oncegate.cli.progress import steps
from oncegate.cli.refusals import refusing
from oncegate.cli.running.requests import CaOption, CertificateOption, UrlOption, answer_about, answer_of
from oncegate.core.errors import BadRequest

FileArgument = Annotated[Path, typer.Argument(help="What `oncegate export` has written.")]
IntoOption = Annotated[str, typer.Option("--namespace", help="Where; made with the file's key if it is not there.")]
# Half of what a request may have.
IDS_AT_ONCE = 50_000
_SAID = {"why": "reason", "who": "who"}


def take_in(
    file: FileArgument,
    namespace: IntoOption,
    reason: ReasonOption,
    who: WhoOption = None,
    url: UrlOption = "http://127.0.0.1:8080",
    as_json: AsJsonOption = False,
    ca: CaOption = None,
    certificate: CertificateOption = None,
) -> None:
    """Make ids known in a namespace that another ledger knows, whatever the gateway's ledger lies on.

    A done id is told DUPLICATE from then on, a taken one is its owner's; each is kept for a whole horizon from now. The
    namespace has to be new, or have the same key. Interrupted, the same command goes on: what is known stays as it is.

    Example: oncegate import orders.parquet --namespace orders --reason "moved to Kafka"
    """
    with refusing():
        import pyarrow.parquet as pq

        try:
            source = pq.ParquetFile(file)
        except (ValueError, OSError) as error:
            raise BadRequest(f"{file} cannot be read as Parquet: {error}; nothing was imported") from error
        said = source.schema_arrow.metadata or {}
        if said.get(FORMAT) != VERSION:
            raise BadRequest(f"{file} is none that `oncegate export` of this version writes; nothing was imported")
        noted, limits = note(reason, who), json.loads(answer_of(url, "v1/limits", None, ca, certificate))
        if long := [name for name, text in noted.items() if len(text.encode()) > limits["name_bytes"]]:
            raise BadRequest(f"--{_SAID[long[0]]} is longer than {limits['name_bytes']} bytes; nothing was imported")
        place = f"v1/namespaces/{urllib.parse.quote(namespace, safe='')}"
        answer_of(url, place, {"key": said[KEY].decode()}, ca, certificate, "PUT")
        query = urllib.parse.urlencode(noted)
        done = new = 0
        with steps() as moved:
            for batch in _batches(file, source, min(IDS_AT_ONCE, limits["ids_per_request"])):
                body = answer_about(url, namespace, f"ids:import?{query}", _stream(batch), ca, certificate)
                new, done = new + json.loads(body)["imported"], done + len(batch)
                moved("ids", done, source.metadata.num_rows)
        members = {"namespace": namespace, "ids": done, "imported": new}
        line = f"{done} ids are known in {namespace}, {new} of them from now on"
        sys.stdout.write((json.dumps(members) if as_json else line) + "\n")


def _batches(file: Path, source: Any, rows: int) -> Iterator[Any]:
    """The ids, so many at once. Raises BadRequest where the file ends before it should."""
    import pyarrow as pa

    try:
        yield from source.iter_batches(rows, columns=["id", "owner", "digest"])
    except (pa.ArrowException, OSError) as error:
        raise BadRequest(f"{file} cannot be read to its end: {error}; what was imported stays") from error


def _stream(batch: Any) -> bytes:
    import pyarrow as pa

    from oncegate.transports.decode.known_ids import SCHEMA

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, SCHEMA) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(batch.columns, schema=SCHEMA))
    return bytes(sink.getvalue())
