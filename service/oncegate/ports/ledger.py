"""Defines the interfaces of a ledger, of a set of ledgers, and of a standby that follows a ledger owned by another
process.

`LEAVING_OUT` lists the optional abilities; start there to write a new ledger. Everything else is mandatory. The
conformance suite (`oncegate.testing`) skips, by name, the checks of abilities that a ledger leaves out.
"""

from collections.abc import AsyncGenerator, AsyncIterable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, runtime_checkable

from oncegate.core.errors import OncegateError
from oncegate.core.lifecycle import EndCell
from oncegate.ports.outputs import DirectRecords, OutputChange, Outputs, RowTopics
from oncegate.ports.row_places import RowPlaces


@dataclass(frozen=True, slots=True)
class Mark:
    """A ledger position: a durable log sequence number, and the first 8 bytes of the hash chain at that position.

    A client may send it back to verify that the ledger still holds what was acknowledged.
    """

    ledger: bytes
    position: int
    chain: bytes


@dataclass(frozen=True, slots=True)
class Replayed:
    """One entry read back. All entries of one append have the same `mark`, that of the last of them.

    Entries of a snapshot all have the position and mark at the end of the entries that it replaced. places: locations
    of its rows in external topics; None: it wrote none there, or the ledger does not keep them.
    """

    position: int
    body: bytes
    mark: Mark
    places: RowPlaces | None = None


class AppendRefused(Exception):
    """Raised when a ledger permanently rejects part of an append. Nothing was written, and the ledger stays open.

    refusal: the error for the caller of that part.
    first_output: index of the first output that may be the cause, if known.
    """

    def __init__(self, refusal: OncegateError, first_output: int | None = None) -> None:
        super().__init__(refusal.detail)
        self.refusal = refusal
        self.first_output = first_output


class Ledger(Protocol):
    """A durable, append-only, fenced log of entries with one writer. The only source of truth.

    Entries have consecutive positions from 1. Outputs, if the ledger holds any, are part of the same commit.
    """

    @property
    def mark(self) -> Mark:
        """Returns the last durable position."""

    async def append(self, entries: Sequence[bytes], outputs: Sequence[OutputChange]) -> Mark:
        """Makes all given entries and output changes durable, or none of them. One call at a time.

        The entries get consecutive positions from `mark.position + 1` on; `outputs` are applied in their order.

        Raises:
            LedgerFull: refused; nothing was written, and the ledger stays open.
            AppendRefused: part of it was refused; nothing was written. The append succeeds without that part.
            LedgerFenced: a newer owner has opened the ledger; nothing was written, and this object is dead.
            LedgerDown: unknown whether it was written; this object is dead, reopen the ledger.
        """

    def replay(self, from_position: int) -> AsyncGenerator[Sequence[Replayed], None]:
        """Yields all durable entries at or after a position, in order; for compacted entries, the snapshot that
        replaced them.

        Entries come in batches of some megabytes, never empty, to save task switches. An async generator (`async def`
        with `yield`): a caller that stops early closes it with `aclose`, after which nothing is read. Entries appended
        meanwhile may be included or not. Raises LedgerDamaged after the entries before the damage.
        """

    async def compact(self, position: int, snapshot: AsyncIterable[bytes]) -> None:
        """Replaces the entries up to and including `position` by the equivalent entries of `snapshot`, as one change.

        The snapshot is iterated once, while appends continue. An error that it raises is passed on, and nothing was
        changed.

        From then on `replay` yields the snapshot's entries, each with `position` and the mark there, then the entries
        after it. Positions, `mark` and outputs are unaffected.

        Raises:
            ValueError: `position` is not the last one of an append, or was compacted before; no effect.
            LedgerFull, LedgerFenced, LedgerDown: as `append`.
        """


@dataclass(frozen=True, slots=True)
class History:
    """The history of an open ledger.

    epoch: number of this opening; higher than every earlier one.
    predecessors: ids of the ledger before it was restored or accepted as an older copy, oldest first.
    compacted: position up to which entries were compacted, 0 for none; marks below it cannot be verified.
    """

    epoch: int
    predecessors: tuple[bytes, ...] = ()
    compacted: int = 0


class Storage:
    """The storage of a ledger: a disk, a server, or memory, which is the default of every method.

    fenced_by_appends: only an append detects a newer owner; False: a lock keeps other owners out.
    """

    fenced_by_appends = False

    def free_bytes(self) -> tuple[int, int]:
        """Returns the free and total bytes; (1, 1) if the ledger has no space limit.

        0 or less free bytes: no new work may be written until the value is positive.
        """
        return 1, 1

    def require_lock(self) -> None:
        """Raises LedgerFenced if the lock that keeps other owners out is lost.

        From any thread; may wait for a disk.
        """

    def durability(self) -> str:
        """Returns which failures an acknowledged append survives, if a server's settings determine this; otherwise an
        empty text.
        """
        return ""

    def away(self) -> OncegateError | None:
        """Returns why the storage is unreachable, if known. The ledger stays open and continues once the storage is
        reachable."""
        return None


@dataclass(frozen=True, slots=True)
class TopicsElsewhere:
    """The external topics to which a ledger sends the rows of requests, if any.

    rows: writes rows to them; None: rows stay in the ledger's outputs.
    direct: records of rows that clients write to those topics themselves; None: not supported.
    """

    rows: RowTopics | None = None
    direct: DirectRecords | None = None


@dataclass(frozen=True)
class OpenLedger:
    """A ledger that was opened and fenced.

    key: the namespace's 32 secret bytes.
    end: the end of the ledger. The ledger records it where it detects it, and its caller where an append fails.
    outputs: reads the rows beside the entries; None: the ledger holds none (`Ability.OUTPUTS`).
    """

    ledger: Ledger
    key: bytes
    history: History
    end: EndCell = field(default_factory=EndCell)
    outputs: Outputs | None = None
    topics: TopicsElsewhere = TopicsElsewhere()
    storage: Storage = field(default_factory=Storage)

    def require_owner(self) -> None:
        """Raises the error that ended the ledger, if it has ended, and LedgerFenced if its lock is lost.

        From any thread; may wait for a disk.
        """
        self.end.check()
        self.storage.require_lock()


class Ledgers(Protocol):
    """A set of namespaces, each with its ledger and key: in a data folder, on a server, or in memory."""

    def names(self) -> list[str]:
        """Returns the existing namespaces, sorted."""

    async def create(self, namespace: str, key: bytes | None = None) -> None:
        """Creates an empty ledger durably, with the given 32-byte key or a new one; no effect if the ledger exists.

        Raises LedgerFull if there is no room for another one. Nothing was made.
        """

    def open(self, namespace: str) -> AbstractAsyncContextManager[OpenLedger]:
        """Opens the ledger as its owner: fences older owners, repairs a torn append, verifies, then yields it.

        Raises:
            LedgerBusy, LedgerDamaged: nothing was touched.
        """

    async def delete(self, namespace: str) -> None:
        """Deletes a namespace that is not open; its name may be reused for a new ledger with a new id and key.

        If ledgers outlive the process, its content is moved aside and kept. Durable when it returns; after a crash it
        is either whole or deleted.

        Raises:
            NotFound, LedgerBusy, LedgerFull: nothing was changed.
            LedgerDown: unknown whether it is deleted; repeat it.
        """


class Ability(StrEnum):
    """An optional capability of a ledger."""

    OUTPUTS = "outputs"
    COMPACTION = "compaction"
    NAMESPACES = "namespaces"


# How a ledger without the ability answers where it is asked for, and what becomes of a gateway over it.
LEAVING_OUT: dict[Ability, str] = {
    Ability.OUTPUTS: (
        "`OpenLedger.outputs` is None, and an append with output changes raises ValueError; the gateway refuses to "
        "serve over it, since rows and evicted ids lie in outputs"
    ),
    Ability.COMPACTION: (
        "`compact` raises LedgerFull each time, nothing is changed; the gateway asks again later, and the ledger grows"
    ),
    Ability.NAMESPACES: (
        "`create` raises BadRequest for every name but `default`, which is never deleted; the gateway passes that on"
    ),
}


@dataclass(frozen=True)
class Followed:
    """A ledger that is read from its beginning until this process owns it.

    key: the namespace's 32 secret bytes.
    ledger: its id.
    outputs: reads the rows beside the entries; None: the ledger holds none.
    batches: all its entries, as from `Ledger.replay(1)`, then those that its owner appends, as they arrive. Ends once
    this process owns the ledger, after all earlier entries, and raises the errors of an opening. LedgerDown: follow
    again from the beginning.
    opened: returns the ledger after `batches` has ended.
    compacted: returns the position up to which entries have been compacted; 0 for none.
    standing: describes the owner that this process follows, and how far it has read; empty: this process owns the
    ledger or is about to.
    predecessors: as in `History`.
    """

    key: bytes
    ledger: bytes
    outputs: Outputs | None
    batches: AsyncGenerator[Sequence[Replayed], None]
    opened: Callable[[], OpenLedger]
    compacted: Callable[[], int]
    standing: Callable[[], str]
    predecessors: tuple[bytes, ...] = ()

    @staticmethod
    def owned(opened: OpenLedger) -> "Followed":
        """Returns a `Followed` for a ledger that this process already owns, to be read only."""
        ledger = opened.ledger
        return Followed(
            opened.key,
            ledger.mark.ledger,
            opened.outputs,
            ledger.replay(1),
            lambda: opened,
            lambda: opened.history.compacted,
            lambda: "",
            opened.history.predecessors,
        )


@runtime_checkable
class Standbys(Protocol):
    """Lets a process stand by for ledgers that another process owns. Some `Ledgers` implement it as well."""

    def follow(self, namespace: str) -> AbstractAsyncContextManager[Followed]:
        """Follows a ledger without fencing its owner, and takes over once that owner is gone; the context closes the
        ledger.

        Raises NotFound or KeyMismatch (nothing was touched), and LedgerDown (try again later).
        """
