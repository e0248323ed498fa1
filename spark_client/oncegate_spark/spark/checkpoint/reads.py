"""Digest of what a batch reads, source by source: the same if a restored checkpoint reads it again.

An entry of the offset log contains its time, so it is never repeated exactly. The digest covers each source's start and
end, and the watermark, which defines late rows. It ignores the batch's time and the session's settings, which are not
read.

- Files (`{"logOffset": n}`): each file of the batch by name and modification time, from the query's own log of the
  source. This is complete: equal files are equal rows.
- Kafka and every other source: the offsets before and after, as JSON. A topic that was deleted and created again has
  the
  same offsets for other rows, and no checkpoint shows this; therefore the resulting rows are included too
  (`digest_with`).

Source: OffsetSeqLog, FileStreamSourceLog and CompactibleFileStreamLog of Spark 3 and 4. Spark's other format of the
offset log (v2, with names of sources) is not supported.
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
    """SHA-256 in hexadecimal of what a batch reads.

    `is_whole`: equal digests mean equal input. Otherwise they only mean equal positions of a source, which may have
    other rows.
    """

    digest: str
    is_whole: bool

    def digest_with(self, rows: int, fingerprint: int) -> str:
        """Returns the digest including the rows, if they are needed; `fingerprint`: of all rows, below 2^128."""
        if self.is_whole:
            return self.digest
        return hashlib.sha256(f"{self.digest} {rows} {fingerprint:032x}".encode()).hexdigest()


def reads_of(store: Store, number: int, before: bytes | None, entry: bytes) -> Reads | None:
    """Returns what batch `number` reads, from its entry and the one before; None if unknown.

    `before`: None if it does not exist, which is valid only for batch 0.
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
        return None  # only the digest of the entry is known, and compared
    text = json.dumps(["oncegate reads 1", watermark, parts], sort_keys=True, separators=(",", ":"))
    return Reads(hashlib.sha256(text.encode()).hexdigest(), is_whole)


def _lines(entry: bytes) -> list[str] | None:
    """Returns the metadata and a line per source; None for an entry in a different format."""
    version, *lines = entry.decode("utf-8", "replace").split("\n")
    return [line for line in lines if line] if version == "v1" and lines and lines[0] else None


def _files(store: Store, source: int, start: str, end: str) -> list[list[object]] | None:
    """Returns the files between two offsets of a source, sorted; None if it does not read files, or
    its log lacks them.
    """
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
    """Returns n of `{"logOffset": n}`; None for other offsets."""
    if line == NOTHING_YET:
        return nothing
    offset = json.loads(line)
    if isinstance(offset, dict) and set(offset) == {"logOffset"}:
        offset = offset["logOffset"]
        return offset if type(offset) is int else None
    return None


def _holding(names: set[str], batch: int) -> str | None:
    """Returns the file of a source's log with this batch: its own, or the next compacted one."""
    if str(batch) in names:
        return str(batch)
    whole = [
        int(name.removesuffix(COMPACT)) for name in names if name.endswith(COMPACT) and name[: -len(COMPACT)].isdigit()
    ]
    return next((f"{number}{COMPACT}" for number in sorted(whole) if number >= batch), None)


def _first(store: Store, source: int) -> str:
    """Returns the initial offset in a source's log; "-" if it has none. Kafka's file starts with a
    byte and a version.
    """
    try:
        text = store.read(f"sources/{source}/0").decode("utf-8", "replace")
    except FileNotFoundError:
        return NOTHING_YET
    return text.partition("\n")[2].strip() or NOTHING_YET


def _canonical(line: str) -> Any:
    """Parses an offset as JSON; else returns its text."""
    try:
        return json.loads(line)
    except ValueError:
        return line
