"""Makes one text of what a batch reads, source by source: the same where a restored checkpoint reads it again.

An entry of the offset log holds the time at which it was made, and so is never the same twice. Of it count: where each
source goes on, where it went on from, and the watermark, which says what is too late. The time of the batch and the
session's settings do not count: they are none of what is read.

- Files (`{"logOffset": n}`): each file of the batch by its name and time of change, as the query's own log of the
  source has it. That says all: equal files are equal rows.
- Kafka, and every other source: the offsets before and after, as JSON. A topic that was made again has the same offsets
  for other rows, and no checkpoint says so; therefore the rows that were made of them count too (`digest_with`).

Source: OffsetSeqLog, FileStreamSourceLog and CompactibleFileStreamLog of Spark 3 and 4; Spark's other form of the
offset log (v2, by names of sources) is not read.
"""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from oncegate_spark.spark.checkpoint.stores import Store

NOTHING_YET = "-"
COMPACT = ".compact"


@dataclass(frozen=True)
class Reads:
    """What a batch reads, by its SHA-256 in hexadecimal. `is_whole`: equal digests are equal input; else they are equal
    places of a source, which may hold other rows."""

    digest: str
    is_whole: bool

    def digest_with(self, rows: int, fingerprint: int) -> str:
        """The digest that two batches of equal rows share; `fingerprint`: of all rows, below 2^128."""
        if self.is_whole:
            return self.digest
        return hashlib.sha256(f"{self.digest} {rows} {fingerprint:032x}".encode()).hexdigest()


def reads_of(store: Store, number: int, before: bytes | None, entry: bytes) -> Reads | None:
    """What batch `number` reads, by its entry and the one before it; None where that is not known.

    `before`: None where there is none, which is so for batch 0 alone if it is known.
    """
    lines, sources = _lines(entry), [] if before is None else _lines(before)
    if lines is None or sources is None or (before is None and number):
        return None
    metadata, *ends = lines
    starts = sources[1:] if before is not None else []
    parts: list[Any] = []
    is_whole = True
    try:
        watermark = json.loads(metadata or "{}").get("batchWatermarkMs", 0)
        for at, end in enumerate(ends):
            start = starts[at] if at < len(starts) else NOTHING_YET
            files = _files(store, at, start, end)
            if files is None:
                is_whole = False
                files = [_canonical(_first(store, at) if start == NOTHING_YET else start), _canonical(end)]
            parts.append(files)
    except (ValueError, AttributeError, KeyError, TypeError, OSError):
        return None  # the digest of the entry is known, and compared alone
    text = json.dumps(["oncegate reads 1", watermark, parts], sort_keys=True, separators=(",", ":"))
    return Reads(hashlib.sha256(text.encode()).hexdigest(), is_whole)


def _lines(entry: bytes) -> list[str] | None:
    """The metadata and a line for each source; None where the entry is of another form."""
    version, *lines = entry.decode("utf-8", "replace").split("\n")
    return [line for line in lines if line] if version == "v1" and lines and lines[0] else None


def _files(store: Store, source: int, start: str, end: str) -> list[list[object]] | None:
    """The files between two offsets of a source, sorted; None where it is none of files, or its log lacks them."""
    first, last = _log_offset(start, -1), _log_offset(end, None)
    if first is None or last is None:
        return None
    try:
        names = set(store.names(f"sources/{source}"))
    except FileNotFoundError:
        return None
    entries: list[list[object]] = []
    for batch in range(first + 1, last + 1):
        file = _holding(names, batch)
        if file is None:
            return None
        for line in store.read(f"sources/{source}/{file}").decode().split("\n")[1:]:
            entry = json.loads(line) if line else None
            if entry is not None and entry["batchId"] == batch:
                entries.append([entry["path"], entry["timestamp"]])
    return sorted(entries, key=str)


def _log_offset(line: str, nothing: int | None) -> int | None:
    """The number of `{"logOffset": n}`; None where the line is none."""
    if line == NOTHING_YET:
        return nothing
    offset = json.loads(line)
    if isinstance(offset, dict) and set(offset) == {"logOffset"}:
        offset = offset["logOffset"]
        return offset if type(offset) is int else None
    return None


def _holding(names: set[str], batch: int) -> str | None:
    """The file of a source's log that has a batch: its own, or the next one that holds all before it."""
    if str(batch) in names:
        return str(batch)
    whole = [
        int(name.removesuffix(COMPACT)) for name in names if name.endswith(COMPACT) and name[: -len(COMPACT)].isdigit()
    ]
    return next((f"{number}{COMPACT}" for number in sorted(whole) if number >= batch), None)


def _first(store: Store, source: int) -> str:
    """Where a source began, as its log has it; "-" where it keeps none. Kafka's begins with a byte and a version."""
    try:
        text = store.read(f"sources/{source}/0").decode("utf-8", "replace")
    except FileNotFoundError:
        return NOTHING_YET
    return text.partition("\n")[2].strip() or NOTHING_YET


def _canonical(line: str) -> Any:
    """An offset as JSON has it, else its text."""
    try:
        return json.loads(line)
    except ValueError:
        return line
