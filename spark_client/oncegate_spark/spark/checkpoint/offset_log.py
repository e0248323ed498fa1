"""Reads a query's offset log when a batch begins: the digest of the batch's input, and where its sources go on.

Source: OffsetSeqLog of Spark 3 and 4, v1: a line with the version, one of metadata, and one for each source.
"""

import hashlib
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from oncegate_spark.protocol.effort import SOURCE_OFFSETS_BYTES
from oncegate_spark.spark.checkpoint.hadoop import CheckpointLocation
from oncegate_spark.spark.checkpoint.reads import Reads, reads_of
from oncegate_spark.spark.checkpoint.stores import OutOfReach, Store, open_store, open_url

NO_PLACE = "Spark tells no place of its checkpoint"

log = logging.getLogger("oncegate_spark")


@dataclass(frozen=True)
class BatchInput:
    """Names the input of a batch: the SHA-256 of the offset-log entries of batch `number` and of the one before it, in
    hexadecimal. `query`: the id of the query whose checkpoint it is, None where that is not to be read. `offsets`:
    where each of its sources is to be read on, as the entry has it, in a JSON list; None where that is not known.
    `reads`: what the batch reads; None where that is not known.

    The digest is the same when a batch is honestly replayed, and another one after a checkpoint was restored or
    deleted, since an entry holds a time; what is read may be the same then.
    """

    number: int
    digest: str
    previous: str | None
    query: str | None = None
    offsets: str | None = None
    reads: Reads | None = None


class NoOffsets(Exception):
    """A checkpoint's place was looked into, and no batch has begun there; the text names it."""


def read_input(location: str | None) -> BatchInput | None:
    """Read the newest entry of the offset log as `find_input` does; None where it cannot be read."""
    try:
        return find_input(location)
    except (NoOffsets, OutOfReach):
        return None


def find_input(location: str | None, settings: Mapping[str, str] | None = None, url: str | None = None) -> BatchInput:
    """Read the newest entry of the offset log: when a batch begins, it is that batch's.

    To be called on the driver when the batch begins, never later: a zombie would find its successor's entry.
    `location`: the checkpoint's, in Spark's words; `settings`: Hadoop's, by their names; `url`: where this client reads
    the same folder, as the option checkpointUrl. Raises NoOffsets where none is there; OutOfReach, with the reason,
    where nobody could look.
    """
    if url is not None:
        return newest_input(open_url(url))
    if location is None:
        raise OutOfReach(NO_PLACE)
    return newest_input(open_store(CheckpointLocation.of(location), settings or {}))


def newest_input(store: Store) -> BatchInput:
    """As `find_input`, of a checkpoint that is open already."""
    try:
        numbers = sorted(int(name) for name in store.names("offsets") if name.isdigit())
        number = numbers[-1]
        before = store.read(f"offsets/{number - 1}") if number - 1 in numbers else None
        entry = store.read(f"offsets/{number}")
        previous = None if before is None else _digest(before)
        reads = reads_of(store, number, before, entry)
        return BatchInput(number, _digest(entry), previous, _query(store), source_offsets(entry), reads)
    except (FileNotFoundError, NotADirectoryError, IndexError):
        raise NoOffsets(f"{store} holds no offsets, as it does when a batch begins") from None
    except OSError as error:
        raise OutOfReach(f"{store} cannot be read: {_line(error)}") from error


def source_offsets(entry: bytes) -> str | None:
    """Where the sources of an offset-log entry are to be read on: a JSON list, null for one that had nothing yet.

    None, with one line in the log for all of them, where the entry is of another form, or longer than is kept.
    """
    version, _, *lines = [*entry.decode("utf-8", "replace").split("\n"), ""]
    if version != "v1":
        return _unknown(f"this client does not know the form of the offset log ({version[:20]!r})")
    try:
        sources = [None if line == "-" else json.loads(line) for line in lines if line]
    except ValueError:
        return _unknown("a source writes offsets that are no JSON")
    offsets = json.dumps(sources, separators=(",", ":"))
    if len(offsets) > SOURCE_OFFSETS_BYTES:
        return _unknown(f"a batch's source offsets have more than {SOURCE_OFFSETS_BYTES} bytes")
    return offsets if sources else None


@cache
def _unknown(why: str) -> None:
    log.warning("the gateway is not told where sources are to be read on (committed_offsets): %s", why)


def _query(store: Store) -> str | None:
    """The id that Spark gave the query when it made the checkpoint."""
    try:
        metadata = json.loads(store.read("metadata"))
        return str(metadata["id"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def _digest(entry: bytes) -> str:
    return hashlib.sha256(entry).hexdigest()


def _line(error: OSError) -> str:
    """What the store said, on one line."""
    return " ".join(str(error).split())[:300]
