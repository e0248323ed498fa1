"""Sends the rows of files through a gateway once more: what the ledger knows is dropped, what is missing is written.

Nothing is kept between runs: the ledger alone knows what was written, so any run may be broken off and repeated.
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

# Called with a step's name, how much is done, and how much there is; None: not known.
ReportStep = Callable[[str, int, int | None], None]


@dataclass
class ReplayCounts:
    """Counts what became of rows; of a dry run, what would.

    rows: all that were answered. written: granted, also by an earlier try of the same request; such a request's rows
    that stood in an earlier one count so too. duplicates: dropped, known as written, or behind their id in one request,
    whose fate they share. conflicts: dropped, for their id is
    written with another payload. stale: dropped as older than what is still known. held, in_doubt: neither written nor
    dropped, for a claim of the id is open, or was left in a namespace that grants nobody such ids.
    taken_over: of those written, what the holder of a claim that ran out may have written too. unchecked: of those
    written, what passed while the ledger was down.
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
        """Returns all of it by name."""
        return asdict(self)

    @property
    def left(self) -> int:
        """Returns how many rows were neither written nor dropped."""
        return self.held + self.in_doubt

    def add(self, verdicts: U8, repeated: bool = False) -> None:
        """Counts the answer to one request, a verdict's byte a row, uint8 (n,); `repeated`: it was sent once more."""
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
    """Says what is sent where: files, the topic with its set of ids, and the columns that are id and payload.

    drops_conflicts: else the first one ends the run.
    """

    given: Sequence[Input]
    topic: str
    id_set: str
    id_columns: Sequence[str]
    digest_columns: Sequence[str] = ()
    drops_conflicts: bool = False


class Replay:
    """Runs one order against one gateway; `counts` says what was answered by now, also after an error."""

    def __init__(self, order: Order, gateway: GatewayClient) -> None:
        self.counts = ReplayCounts()
        self.place = "the beginning"
        self._order, self._gateway = order, gateway
        self._token, self._call = secrets.token_hex(16), 0

    def write(self, report_step: ReportStep) -> None:
        """Sends all rows. Raises BadRequest: a file, or the first conflict; and what the gateway answers.

        After an error the rows that are not in `counts` may be written or not; the next run finds out.
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
        """Returns whether the ledger knows one of the rows, or there are none: reads as far as it has to."""
        rows = 0
        for *_, ids in self._batches(report_step, "rows looked up"):
            kinds = self._gateway.look_up(ids, self._order.id_set) & VERDICT_MASK
            # SAME repeats an id of its own request.
            if not np.isin(kinds, (Verdict.GRANTED, Verdict.FREE, Verdict.SAME)).all():
                return True
            rows += len(ids)
        return rows == 0

    def look_up(self, report_step: ReportStep) -> None:
        """Asks about all rows and writes none; a row that comes again in a later request counts as written again."""
        for *_, ids in self._batches(report_step):
            self.counts.add(self._gateway.look_up(ids, self._order.id_set))

    def _batches(self, report_step: ReportStep, step: str = "rows") -> Iterator[tuple[int, pa.Table, pa.Table]]:
        """Every batch of every file, with its ids, which all rows have; the bar is moved behind each."""
        sizes = [source.rows for source in self._order.given]
        total, done = None if None in sizes else sum(size or 0 for size in sizes), 0
        for source in self._order.given:
            for first, table in source.batches():
                self.place = f"row {first} of {source.path}"
                ids = as_ids(table, list(self._order.id_columns))
                there = present(ids)
                if not there.all():
                    row = first + int(np.argmin(there))
                    raise BadRequest(f"row {row} of {source.path} has a null or empty id, which no write by id takes")
                yield first, table, ids
                done += len(table)
                report_step(step, done, total)

    def _check_conflicts(self, verdicts: U8, first: int) -> None:
        at = np.flatnonzero(verdicts & VERDICT_MASK == Verdict.CONFLICT)
        if len(at) and not self._order.drops_conflicts:
            raise BadRequest(
                f"{len(at)} rows have an id that is written with other content, the first of them row "
                f"{first + int(at[0])}: find out which one is right; --on-conflict drop leaves such rows out"
            )


def _count(rows: "np.ndarray[tuple[int], np.dtype[np.bool_]]") -> int:
    return int(np.count_nonzero(rows))
