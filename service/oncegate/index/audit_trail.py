"""Records the newest operator actions in a namespace, and rows that clients spilled and wrote late (`spilled_rows`).

An action stays listed even if its entry is gone.
"""

import struct
from collections import deque
from heapq import merge
from typing import NamedTuple

from oncegate.core.entries.kinds import Audited, Entry
from oncegate.core.entries.producers import Resolved
from oncegate.core.wall_time import text_of
from oncegate.index.part import Undo
from oncegate.index.spilled_rows import SpilledLine, SpilledRows

# A year of thirty a day; some 300 bytes each, 12 MiB if all names have their maximum length.
RECORDS_MAX = 10_000
# The operator's name if no credential is required.
NO_CALLER = "callers without a key"
SPILLED = "write spilled rows"


class AuditRecord(NamedTuple):
    """An action: its subject, the size of its effect, the operator and the reason.

    position: of its entry.
    claim: 16 bytes if the subject is a claim; else empty.
    """

    position: int
    wall_ms: int
    action: str
    subject: str
    claim: bytes
    changed: int
    who: str
    why: str


AuditSnapshot = list[AuditRecord]
_SPAN = struct.Struct("<QQ")


class AuditTrail:
    """The newest actions, oldest first. A pure function of the ledger's entries.

    spilled: rows that are listed among the actions.
    """

    def __init__(self, spilled: SpilledRows) -> None:
        self._records: deque[AuditRecord] = deque()
        self._spilled = spilled

    def apply(self, position: int, entry: Entry, _now_ms: int = 0) -> Undo | None:
        record = _record_of(position, entry)
        if record is None:
            return None
        gone = self._records.popleft() if len(self._records) >= RECORDS_MAX else None
        self._records.append(record)

        def undo() -> None:
            self._records.pop()
            if gone is not None:
                self._records.appendleft(gone)

        return undo

    def before(self, position: int | None, count: int) -> list[AuditRecord]:
        """Returns up to `count` actions below a position, newest first; if the position is None, starts at the
        newest.
        """
        spilled = map(_record_of_spilled, self._spilled.newest_first())
        newest = merge(reversed(self._records), spilled, key=lambda record: -record.position)
        older = (record for record in newest if position is None or record.position < position)
        return [record for record, _ in zip(older, range(count), strict=False)]

    def snapshot(self) -> AuditSnapshot:
        return list(self._records)

    def restore(self, saved: AuditSnapshot) -> None:
        self._records = deque(saved)


def _record_of(position: int, entry: Entry) -> AuditRecord | None:
    if isinstance(entry, Audited):
        what = entry.action, entry.subject, b"", entry.changed
        return AuditRecord(position, entry.wall_ms, *what, entry.who, entry.why)
    if isinstance(entry, Resolved):
        action = entry.verb or ("resolve done" if entry.is_done else "resolve not-done")
        of_producer = bool(entry.producer_id)
        producer = entry.producer or f"number {entry.producer_id}"
        sequences = sum(last - first + 1 for first, last in _SPAN.iter_unpack(entry.spans))
        subject, changed = (f"producer {producer}", sequences) if of_producer else ("", entry.ids)
        what = action, subject, b"" if of_producer else entry.claim, changed
        return AuditRecord(position, entry.wall_ms, *what, entry.who, entry.why)
    return None


def _record_of_spilled(line: SpilledLine) -> AuditRecord:
    subject = f"topic {line.topic}: rows spilled from {text_of(line.from_ms)} until {text_of(line.until_ms)}"
    why = "the gateway was down, and the client's on_down is spill"
    return AuditRecord(line.position, line.wall_ms, SPILLED, subject, b"", line.rows, line.who or NO_CALLER, why)
