"""Sends the rows of files through a gateway again: skips rows whose ids are known, and writes missing rows.

Nothing is kept between runs: only the ledger knows which rows were written, so a run may be interrupted and repeated.
"""

import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import pyarrow as pa

from oncegate.arraytypes import U8
from oncegate.core.errors import BadRequest
from oncegate.core.verdicts import VERDICT_MASK, Flag, Verdict
from oncegate.verifier.ids import as_ids, present
from oncegate.verifier.repair import pieces
from oncegate.verifier.sources.gateway import GatewayClient
from oncegate.verifier.sources.inputs import Input

# Called with the name of a step, the amount done, and the total; None: unknown.
ReportStep = Callable[[str, int, int | None], None]


@dataclass
class ReplayCounts:
    """The number of rows by result; for a dry run, by expected result.

    rows: all that were answered.
    written: granted, possibly by an earlier try of the same request. A repeated request also counts its rows that an
    earlier request of the run wrote.
    duplicates: dropped: known as written, or a repetition in the request of an earlier row, whose fate it shares.
    conflicts: dropped: the id is written with another payload.
    stale: dropped: older than everything that is still known.
    held, in_doubt: neither written nor dropped: a claim of the id is open, or was left in a namespace without
    takeovers.
    taken_over: those of the written rows that the holder of an expired claim may have written too.
    unchecked: those of the written rows that passed while the ledger was down.
    """

    rows: int = 0
    written: int = 0
    duplicates: int = 0
    conflicts: int = 0
    stale: int = 0
    held: int = 0
    in_doubt: int = 0
    taken_over: int = 0
    unchecked: int = 0

    @property
    def members(self) -> dict[str, int]:
        """Returns all counts by name."""
        return asdict(self)

    @property
    def left(self) -> int:
        """Returns the number of rows that were neither written nor dropped."""
        return self.held + self.in_doubt

    def add(self, verdicts: U8, repeated: bool = False) -> None:
        """Counts the answer to one request, one verdict byte per row, uint8 (n,). repeated: the request was sent
        again."""
        kinds = verdicts & VERDICT_MASK
        own = (kinds == Verdict.DUPLICATE) & (verdicts & Flag.OWN != 0) & repeated
        written = (kinds == Verdict.GRANTED) | (kinds == Verdict.FREE) | own
        self.rows += len(verdicts)
        self.written += _count(written)
        self.duplicates += _count(((kinds == Verdict.DUPLICATE) & ~own) | (kinds == Verdict.SAME))
        self.conflicts += _count(kinds == Verdict.CONFLICT)
        self.stale += _count(kinds == Verdict.STALE)
        self.held += _count(kinds == Verdict.BUSY)
        self.in_doubt += _count(kinds == Verdict.IN_DOUBT)
        self.taken_over += _count(written & ~own & (verdicts & Flag.TAKEOVER != 0))
        self.unchecked += _count(written & (verdicts & Flag.UNCHECKED != 0))


@dataclass(frozen=True)
class Order:
    """The files to send, the topic and its dedup scope, and the id and payload columns.

    drops_conflicts: drop rows in conflict; else the first one ends the run.
    """

    given: Sequence[Input]
    topic: str
    id_set: str
    id_columns: Sequence[str]
    digest_columns: Sequence[str] = ()
    drops_conflicts: bool = False


class Replay:
    """Runs one replay order (files, topic, columns) against one gateway. `counts` has the rows answered so far, even
    after an error.
    """

    def __init__(self, order: Order, gateway: GatewayClient) -> None:
        self.counts = ReplayCounts()
        self.place = "the beginning"
        self._order, self._gateway = order, gateway
        self._token, self._call = secrets.token_hex(16), 0

    def write(self, report_step: ReportStep) -> None:
        """Sends all rows of all files. Raises BadRequest for a file error or the first conflict, and the gateway's
        errors.

        After an error, rows that are not in `counts` may be written or not; the next run finds out.
        """
        order, named = self._order, list(self._order.id_columns)
        for first, table, _ in self._batches(report_step):
            row = first
            for piece in pieces(table):
                call = order.id_set, self._token, self._call, order.digest_columns
                repeats = self._gateway.repeats
                verdicts = self._gateway.produce(order.topic, piece, named, *call)
                self._call += 1
                self.counts.add(verdicts, self._gateway.repeats != repeats)
                self._check_conflicts(verdicts, row)
                row += len(piece)

    def knows_some(self, report_step: ReportStep) -> bool:
        """Returns True if the ledger knows at least one of the rows, or if there are no rows. Stops at the first known
        row.
        """
        rows = 0
        for *_, ids in self._batches(report_step, "rows looked up"):
            kinds = self._gateway.look_up(ids, self._order.id_set) & VERDICT_MASK
            # SAME is a repetition within the request.
            if not np.isin(kinds, (Verdict.GRANTED, Verdict.FREE, Verdict.SAME)).all():
                return True
            rows += len(ids)
        return rows == 0

    def look_up(self, report_step: ReportStep) -> None:
        """Looks up all rows and writes none. A row that is repeated in a later request counts as written again."""
        for *_, ids in self._batches(report_step):
            self.counts.add(self._gateway.look_up(ids, self._order.id_set))

    def _batches(self, report_step: ReportStep, step: str = "rows") -> Iterator[tuple[int, pa.Table, pa.Table]]:
        """Yields every batch of every file, with its ids, and reports progress. Raises BadRequest for a row without an
        id.
        """
        sizes = [source.rows for source in self._order.given]
        total, done = None if None in sizes else sum(size or 0 for size in sizes), 0
        for source in self._order.given:
            for first, table in source.batches():
                self.place = f"row {first} of {source.path}"
                ids = as_ids(table, list(self._order.id_columns))
                there = present(ids)
                if not there.all():
                    row = first + int(np.argmin(there))
                    raise BadRequest(
                        f"row {row} of {source.path} has a null or empty id, which cannot be written by id"
                    )
                yield first, table, ids
                done += len(table)
                report_step(step, done, total)

    def _check_conflicts(self, verdicts: U8, first: int) -> None:
        at = np.flatnonzero(verdicts & VERDICT_MASK == Verdict.CONFLICT)
        if len(at) and not self._order.drops_conflicts:
            raise BadRequest(
                f"{len(at)} rows have an id that is written with another payload, the first of them row "
                f"{first + int(at[0])}: find out which one is right, or drop such rows with --on-conflict drop"
            )


def _count(rows: "np.ndarray[tuple[int], np.dtype[np.bool_]]") -> int:
    return int(np.count_nonzero(rows))
