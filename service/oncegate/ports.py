"""What the engine needs from the world, as Protocols of at most four methods each."""

from collections.abc import AsyncIterable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in one ledger that a client may bring back: the last durable position and 8 bytes of its chain."""

    ledger: bytes
    position: int
    chain: bytes


@dataclass(frozen=True, slots=True)
class WriteRange:
    """New output: `rows` rows in `data` (an Arrow IPC stream), named by 16 bytes that are never used again.

    Ranges of one `stream` may share a file; nothing can be read of it before it is published.
    """

    range_id: bytes
    stream: str
    rows: int
    data: bytes


@dataclass(frozen=True, slots=True)
class PublishRanges:
    """From now on the ranges, in this order, are the topic's rows from `first_offset` on. Copies nothing."""

    topic: str
    partition: int
    first_offset: int
    range_ids: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class DropRanges:
    """These ranges will never be published; their files are removed once nothing else lives in them."""

    range_ids: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class TrimRanges:
    """Published ranges that lie wholly below `before_offset` are forgotten; reading there raises OffsetTrimmed."""

    topic: str
    partition: int
    before_offset: int


OutputChange = WriteRange | PublishRanges | DropRanges | TrimRanges
# What stands in place of collected entries: all of it at once, or as it is made.
State = Sequence[bytes] | AsyncIterable[bytes]


@dataclass(frozen=True, slots=True)
class Replayed:
    """One entry read back; `mark` is its frame's, equal for all entries of one append, at the frame's last position.

    What was collected has one position and one mark: those that stood at the end of it.
    """

    position: int
    body: bytes
    mark: Mark


@dataclass(frozen=True, slots=True)
class Chunk:
    """A published range, whole: `data` holds `rows` rows whose first has `first_offset`."""

    first_offset: int
    rows: int
    data: bytes


class Ledger(Protocol):
    """A durable, append-only, fenced log with one writer. The only truth.

    Entries have consecutive positions from 1. Outputs lie beside it and are part of the same commit.
    """

    @property
    def mark(self) -> Mark:
        """The last durable place."""

    async def append(self, entries: Sequence[bytes], outputs: Sequence[OutputChange]) -> Mark:
        """Make all entries and output changes durable, or none. One call at a time.

        The entries get the positions `mark.position + 1` and on; `outputs` are applied in their order.

        Raises:
            LedgerFull: a definite refusal: nothing was written, and the ledger goes on.
            LedgerFenced: a newer owner has opened the ledger; nothing was written, and this one is dead.
            LedgerDown: unknown whether it was written; this ledger object is dead, open it anew.
        """

    def replay(self, from_position: int) -> Iterable[Replayed]:
        """All durable entries from a position on, in order; of what was collected, the state that replaced it."""

    async def fetch(self, topic: str, partition: int, offset: int, max_rows: int, max_bytes: int) -> list[Chunk]:
        """Published ranges that hold the rows from `offset` on, until `max_rows` are covered or the topic ends.

        It stops after the range that reaches `max_bytes`; where there are rows, at least one range is given.

        Raises:
            OffsetTrimmed: `offset` lies below the lowest kept.
            LedgerDamaged: the bytes are not those that were written.
        """

    async def compact(self, position: int, state: State) -> None:
        """Replace the entries up to and including `position` by `state`, entries that mean the same, as one change.

        A state that is still being made is gone through once, while appends go on; an error that it raises is passed
        on, and nothing was changed.

        From then on `replay` gives the state's entries, each with `position` and the mark that stood there, then the
        entries after it. Positions, `mark` and outputs go on as if nothing had happened. Appends may go on meanwhile.

        Raises:
            ValueError: `position` is not the last one of an append, or lies below what was collected; no effect.
            LedgerFull, LedgerFenced, LedgerDown: as `append`.
        """


class Runs(Protocol):
    """Files of sorted ids beside a ledger. Nothing here is truth: any of it may be gone or damaged, and is made again.

    All methods block, and may be called from any thread. They raise LedgerFenced once the ledger has a newer owner or
    was closed.
    """

    def names(self) -> list[str]:
        """What is there, whole, sorted."""

    def write(self, name: str, pieces: Iterable[bytes]) -> None:
        """Make the pieces, one after the other, the bytes of `name`, durably: whole, or it is as it was before.

        An error that `pieces` raises is passed on; then nothing was written.

        Raises:
            ValueError: `name` is not 1 to 64 of a-z, 0-9, '.', '_', '-', beginning with a letter or digit, or ends
                with '.tmp'.
            LedgerFull: there is no room; nothing was written.
            OSError: whether `name` holds the pieces now or what it held before is unknown.
        """

    def open(self, name: str) -> memoryview:
        """Its bytes, read-only and not verified; they stay what they are whatever becomes of the name. KeyError."""

    def remove(self, name: str) -> None:
        """No effect when it is not there. OSError: unknown whether it still is."""


@dataclass(frozen=True)
class OpenLedger:
    """A ledger opened and fenced, with what lies beside it. `key`: the namespace's 32 secret bytes.

    `runs`: sorted runs of ids; a ledger that was restored has none.
    `predecessors`: the ids it had before it was restored or accepted as an older copy, oldest first.
    `collected`: the position up to which entries were collected, 0 when none were: marks below it left no trace.
    """

    ledger: Ledger
    key: bytes
    epoch: int
    runs: Runs
    predecessors: tuple[bytes, ...] = ()
    compacted: int = 0


class Ledgers(Protocol):
    """Where ledgers live (a data folder, memory): a set of namespaces, each with its ledger and key."""

    def names(self) -> list[str]:
        """The namespaces that exist, sorted."""

    async def create(self, namespace: str) -> None:
        """Make an empty ledger with a new key; no effect when it exists. Durable when it returns."""

    def open(self, namespace: str) -> AbstractAsyncContextManager[OpenLedger]:
        """Own the ledger: fence older owners, repair a torn append, verify, then yield it.

        Raises:
            LedgerBusy, LedgerDamaged: nothing was touched.
        """

    def free_bytes(self) -> tuple[int, int]:
        """Free and total bytes of the disk below; (1, 1) where there is none."""


class Clock(Protocol):
    """Time. Leases and deadlines use the monotonic one; the wall clock only labels."""

    def monotonic_ms(self) -> int:
        """Milliseconds from an arbitrary start; never goes back."""

    def wall_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC; may be stepped."""

    async def sleep_ms(self, duration_ms: int) -> None:
        """Return after `duration_ms` of monotonic time."""


class Observer(Protocol):
    """Where events go: log lines now, metrics and traces later."""

    def event(self, name: str, /, **fields: object) -> None:
        """Something happened; fields are plain values. Must not raise."""


__all__ = [
    "Chunk",
    "Clock",
    "DropRanges",
    "Ledger",
    "Ledgers",
    "Mark",
    "Observer",
    "OpenLedger",
    "OutputChange",
    "PublishRanges",
    "Replayed",
    "Runs",
    "TrimRanges",
    "WriteRange",
]
