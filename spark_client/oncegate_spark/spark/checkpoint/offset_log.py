"""Reads a query's offset log when a batch begins: the digest of the batch's input, and its sources' next offsets.

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

NO_PLACE = "Spark does not reveal its checkpoint"

log = logging.getLogger("oncegate_spark")


@dataclass(frozen=True)
class BatchInput:
    """Input of a batch.

        digest   SHA-256 in hexadecimal of the offset-log entry of batch `number`; `previous`: of the entry before it
        query    id of the query that owns the checkpoint; None if it cannot be read
        offsets  offsets from which each source is to be resumed, as a JSON list; None if unknown
        reads    what the batch reads; None if unknown

    A replay has the same digest. After a checkpoint was restored or deleted the digest differs, since an entry contains
    a time, although the batch may read the same input.
    """

    number: int
    digest: str
    previous: str | None
    query: str | None = None
    offsets: str | None = None
    reads: Reads | None = None


class NoOffsets(Exception):
    """The checkpoint was read, and no batch has begun in it; the message names it."""


def read_input(location: str | None) -> BatchInput | None:
    """Like `find_input`; None if the log cannot be read."""
    try:
        return find_input(location)
    except (NoOffsets, OutOfReach):
        return None


def find_input(location: str | None, settings: Mapping[str, str] | None = None, url: str | None = None) -> BatchInput:
    """Reads the newest entry of the offset log, which is a batch's own when it begins.

    Call it on the driver when the batch begins, never later: a superseded driver would read its successor's entry.

    Args:
        location: the checkpoint, as Spark names it
        settings: Hadoop's, by name
        url: the same folder for this client, as in the option checkpointUrl

    Raises NoOffsets if there is no entry, OutOfReach with the reason if the log cannot be read.
    """
    if url is not None:
        return newest_input(open_url(url))
    if location is None:
        raise OutOfReach(NO_PLACE)
    return newest_input(open_store(CheckpointLocation.of(location), settings or {}))


def newest_input(store: Store) -> BatchInput:
    """Like `find_input`, for an open checkpoint."""
    try:
        numbers = sorted(int(name) for name in store.names("offsets") if name.isdigit())
        number = numbers[-1]
        before = store.read(f"offsets/{number - 1}") if number - 1 in numbers else None
        entry = store.read(f"offsets/{number}")
        previous = None if before is None else _digest(before)
        reads = reads_of(store, number, before, entry)
        return BatchInput(number, _digest(entry), previous, _query(store), source_offsets(entry), reads)
    except (FileNotFoundError, NotADirectoryError, IndexError):
        raise NoOffsets(f"{store} contains no offsets, which exist once a batch begins") from None
    except OSError as error:
        raise OutOfReach(f"{store} cannot be read: {_line(error)}") from error


def source_offsets(entry: bytes) -> str | None:
    """Returns the next offsets of an entry's sources: a JSON list, null for a source without data so far.

    Returns None, logged once, for an entry of another format, or longer than the gateway stores.
    """
    version, _, *lines = [*entry.decode("utf-8", "replace").split("\n"), ""]
    if version != "v1":
        return _unknown(f"this client does not support the format of the offset log ({version[:20]!r})")
    try:
        sources = [None if line == "-" else json.loads(line) for line in lines if line]
    except ValueError:
        return _unknown("the offsets of a source are not JSON")
    offsets = json.dumps(sources, separators=(",", ":"))
    if len(offsets) > SOURCE_OFFSETS_BYTES:
        return _unknown(f"a batch's source offsets exceed {SOURCE_OFFSETS_BYTES} bytes")
    return offsets if sources else None


@cache
def _unknown(why: str) -> None:
    log.warning("source offsets are not stored at the gateway, so committed_offsets has none: %s", why)


def _query(store: Store) -> str | None:
    """Returns the id that Spark gave the query when it created the checkpoint."""
    try:
        metadata = json.loads(store.read("metadata"))
        return str(metadata["id"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def _digest(entry: bytes) -> str:
    return hashlib.sha256(entry).hexdigest()


def _line(error: OSError) -> str:
    """Returns the store's message on one line."""
    return " ".join(str(error).split())[:300]
