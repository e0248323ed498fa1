"""Defines the ledger, the only truth; the set of ledgers; and how a standby follows a ledger that another process owns.

`LEAVING_OUT` lists what a ledger may leave out: the author of a new ledger begins with it. Nothing else is a ledger's
choice. The conformance suite (`oncegate.testing`) skips, by name, the checks of the abilities that a ledger leaves
out.
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
    """Names a durable position of one ledger: its log sequence number, and the first 8 bytes of its hash chain there.

    A client may bring it back to learn whether the ledger still holds what was acknowledged.
    """

    ledger: bytes
    position: int
    chain: bytes


@dataclass(frozen=True, slots=True)
class Replayed:
    """Carries one entry read back; `mark` is equal for all entries of one append: it stands at the last of them.

    Entries of a snapshot all have one position and one mark: those that stood at the end of what it replaced.
    `places`: where its rows lie in topics elsewhere; None: it wrote none there, or the ledger did not keep it.
    """

    position: int
    body: bytes
    mark: Mark
    places: RowPlaces | None = None


class AppendRefused(Exception):
    """Says that a ledger never takes a part of an append as it is; nothing was written, and the ledger goes on.

    refusal: what whoever brought that part is told. first_output: the place, among the append's outputs, of the first
    that may be it, where that is known.
    """

    def __init__(self, refusal: OncegateError, first_output: int | None = None) -> None:
        super().__init__(refusal.detail)
        self.refusal = refusal
        self.first_output = first_output


class Ledger(Protocol):
    """Keeps entries in a durable, append-only, fenced log with one writer. The only truth.

    Entries have consecutive positions from 1. Outputs, where the ledger holds any, are part of the same commit.
    """

    @property
    def mark(self) -> Mark:
        """The last durable position."""

    async def append(self, entries: Sequence[bytes], outputs: Sequence[OutputChange]) -> Mark:
        """Makes all entries and output changes durable, or none. One call at a time.

        The entries get the positions `mark.position + 1` and on; `outputs` are applied in their order.

        Raises:
            LedgerFull: a definite refusal: nothing was written, and the ledger goes on.
            AppendRefused: the same of a part of it: what is appended without that part is taken.
            LedgerFenced: a newer owner has opened the ledger; nothing was written, and this one is dead.
            LedgerDown: unknown whether it was written; this ledger object is dead, open it anew.
        """

    def replay(self, from_position: int) -> AsyncGenerator[Sequence[Replayed], None]:
        """Reads all durable entries from a position on, in order; for compacted entries, the snapshot in their place.

        Entries come in batches of some megabytes, so that no task switch is paid for each; no batch is empty. An
        async generator (`async def` with `yield`): whoever stops early closes it with `aclose`, and then nothing is
        read any more. What is appended meanwhile may come or not. LedgerDamaged, after the entries before the damage.
        """

    async def compact(self, position: int, snapshot: AsyncIterable[bytes]) -> None:
        """Replaces the entries up to and including `position` by `snapshot`, entries that mean the same, as one change.

        The snapshot is gone through once, while appends go on; an error that it raises is passed on, and nothing was
        changed.

        From then on `replay` gives the snapshot's entries, each with `position` and the mark that stood there, then
        the entries after it. Positions, `mark` and outputs go on as if nothing had happened.

        Raises:
            ValueError: `position` is not the last one of an append, or lies below what was compacted; no effect.
            LedgerFull, LedgerFenced, LedgerDown: as `append`.
        """


@dataclass(frozen=True, slots=True)
class History:
    """Names an opening of a ledger, and what was before it.

    epoch: the number of this opening; higher than every one before.
    predecessors: the ids it had before it was restored or accepted as an older copy, oldest first.
    compacted: the position up to which entries were compacted, 0 for none: marks below it left no trace.
    """

    epoch: int
    predecessors: tuple[bytes, ...] = ()
    compacted: int = 0


class Storage:
    """Answers for what keeps a ledger: a disk, a server, or memory, which this is where nothing is overridden.

    fenced_by_appends: only an append finds that a newer owner has opened the ledger; False: a lock keeps others out.
    """

    fenced_by_appends = False

    def free_bytes(self) -> tuple[int, int]:
        """Returns free and total bytes; (1, 1) where there are none to count.

        0 or less free: nothing new is to be written before there is more than as many.
        """
        return 1, 1

    def require_lock(self) -> None:
        """Raises LedgerFenced once the lock is lost that keeps other owners out.

        From any thread; it may wait for a disk.
        """

    def durability(self) -> str:
        """Says what an acknowledged append outlives, where a server's settings decide that; else empty."""
        return ""

    def away(self) -> OncegateError | None:
        """Returns why it cannot be reached now, where that is known; nothing has ended, and it goes on by itself."""
        return None


@dataclass(frozen=True, slots=True)
class TopicsElsewhere:
    """Holds the topics elsewhere that rows of requests are sent to; none where nothing is given.

    rows: writes rows into them; None: rows stay here, in outputs.
    direct: the records of rows that clients write themselves into those topics; None: they cannot.
    """

    rows: RowTopics | None = None
    direct: DirectRecords | None = None


@dataclass(frozen=True)
class OpenLedger:
    """Carries a ledger that was opened and fenced, and what is known of it.

    key: the namespace's 32 secret bytes.
    end: its end, once it has one. The ledger writes it where it finds it, and its caller where an append fails.
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
        """Raises why the ledger has ended, once it has, and LedgerFenced once its lock is lost.

        From any thread; it may wait for a disk.
        """
        self.end.check()
        self.storage.require_lock()


class Ledgers(Protocol):
    """Keeps a set of namespaces, each with its ledger and key: a data folder, or memory."""

    def names(self) -> list[str]:
        """Returns the namespaces that exist, sorted."""

    async def create(self, namespace: str, key: bytes | None = None) -> None:
        """Makes an empty ledger, with this key of 32 bytes or a new one; no effect when it exists. Then it is durable.

        LedgerFull: there is no room for one more; nothing was made.
        """

    def open(self, namespace: str) -> AbstractAsyncContextManager[OpenLedger]:
        """Owns the ledger: fences older owners, repairs a torn append, verifies, then yields it.

        Raises:
            LedgerBusy, LedgerDamaged: nothing was touched.
        """

    async def delete(self, namespace: str) -> None:
        """Ends a namespace that nobody has open: its name is free for a new ledger, with another id and key.

        Where ledgers outlive the process, what it held is set aside and kept. Durable when it returns; a crash before
        leaves it whole or deleted.

        Raises:
            NotFound, LedgerBusy, LedgerFull: nothing was changed.
            LedgerDown: unknown whether it is deleted; repeat it.
        """


class Ability(StrEnum):
    """Names one thing that a ledger may do without."""

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
    """Carries a ledger that is read from its beginning until this process owns it.

    key: the namespace's 32 secret bytes. ledger: its id.
    outputs: reads the rows beside the entries; None: the ledger holds none.
    batches: all its entries as `Ledger.replay(1)` gives them, then those that its owner appends, as they come. It ends
        once this process owns the ledger, with all that was appended before, and raises what an opening does;
        LedgerDown: it is to be followed anew, from the beginning.
    opened: returns the ledger once `batches` has ended.
    compacted: returns the position up to which entries were compacted so far; 0 for none.
    standing: says for whom this process stands by, and how far it has read; empty: it owns the ledger, or is
        to take it over.
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
        """Returns the same of a ledger that this process owns already: it only is to be read."""
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
    """Lets a process stand by for ledgers that another one owns. What some `Ledgers` are, too."""

    def follow(self, namespace: str) -> AbstractAsyncContextManager[Followed]:
        """Reads on in a ledger without fencing its owner, and owns it once that one is gone; closed in the end.

        NotFound, KeyMismatch: nothing was touched; LedgerDown: not now.
        """
