"""Defines a part of a shard's index: how entries change it and how a snapshot holds it. Makes snapshots of all parts.

A snapshot consists of named pieces of bytes; each part's codec is in the part's module. The pieces become entries here
and replace the entries that made the index when a ledger is compacted.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, Protocol

import msgspec

from oncegate.core.entries.kinds import Entry, SnapshotPiece

Undo = Callable[[], None]
# Name and bytes. The name is the kind, or kind/number if there may be several.
Piece = tuple[str, bytes]
# Pieces in steps of a few milliseconds, between which anything may change. Exhaust or close the generator.
Steps = Generator[list[Piece], None, None]
_encode = msgspec.msgpack.Encoder().encode


class Reader(Protocol):
    """Restores an empty part from its pieces, in their order. Raises ValueError if they do not belong together."""

    def take(self, what: str, data: bytes) -> None:
        """Reads the next piece."""

    def finish(self) -> None:
        """Finishes the restore. The parts before this one in the index's list are restored already."""


@dataclass(frozen=True, slots=True)
class IndexPart:
    """One part of a shard's index, as functions over its state.

    kinds: of its pieces.
    snapshot: begins a snapshot of the present state.
    restore: begins to read a snapshot.
    apply: applies an entry, given its position and the monotonic time in ms. Returns the undo, or None if the entry
    does not concern this part. Undos are called newest first. None: another part applies its entries.
    count: content that deleting the namespace would forget, by kind.
    """

    kinds: tuple[str, ...]
    snapshot: Callable[[], Steps]
    restore: Callable[[], Reader]
    apply: Callable[[int, Entry, int], Undo | None] | None = None
    count: Callable[[], Mapping[str, int]] = dict


class _WholeReader:
    """Restores a part that is a single piece. absent: called if an older snapshot does not have it."""

    def __init__(self, value_type: Any, load: Callable[[Any], object], absent: Callable[[], object]) -> None:
        self._type = value_type
        self._finish = absent
        self._load = load

    def take(self, _what: str, data: bytes) -> None:
        """Decodes the piece; `finish` restores it."""
        saved = msgspec.msgpack.decode(data, type=self._type)
        self._finish = lambda: self._load(saved)

    def finish(self) -> None:
        self._finish()


def whole(
    kind: str,
    value_type: Any,
    save: Callable[[], Any],
    load: Callable[[Any], object],
    apply: Callable[[int, Entry, int], Undo | None] | None = None,
    count: Callable[[], Mapping[str, int]] = dict,
    absent: Callable[[], object] = bool,
) -> IndexPart:
    """Returns a part that a snapshot holds as one piece, the msgpack of a `value_type`.

    save: returns everything, as values that no later change alters.
    load: replaces everything by such values; raises ValueError.
    absent: called in place of `load` if an older snapshot has no such piece.
    """
    return IndexPart(
        (kind,), lambda: _one_step(kind, _encode(save())), partial(_WholeReader, value_type, load, absent), apply, count
    )


def _one_step(kind: str, data: bytes) -> Steps:
    yield [(kind, data)]


# A piece is one entry: far below the maximum of a frame, and large enough that there are few.
PIECE_BYTES = 16 << 20
END = "end"


def snapshot_steps(parts: Iterable[IndexPart]) -> Generator[list[SnapshotPiece], None, None]:
    """Creates a snapshot of the current state as pieces, including changes that are not yet durable.

    `part` of an entry counts the pieces of its kind that follow. Anything may change between the steps, which take a
    few milliseconds: lists of names and the like are copied at once, and so are the archives, each a MiB of ids.

    A step raises SnapshotStopped if the claims could not be completed. Exhaust or close the generator.
    """
    return _entries([part.snapshot() for part in parts])


def _entries(parts: Sequence[Steps]) -> Generator[list[SnapshotPiece], None, None]:
    # Closed in any case: an error's traceback would keep the generators alive, and with them the index.
    with ExitStack() as closed:
        for steps in parts:
            closed.enter_context(closing(steps))
        for pieces in chain(*parts):
            yield [entry for name, data in pieces for entry in _cut(name, data)]
    yield [SnapshotPiece(END, 0, b"")]


def _cut(what: str, data: bytes) -> Iterator[SnapshotPiece]:
    count = max(1, -(-len(data) // PIECE_BYTES))
    for number in range(count):
        yield SnapshotPiece(what, count - 1 - number, data[number * PIECE_BYTES : (number + 1) * PIECE_BYTES])


class SnapshotReader:
    """Restores a shard's index incrementally, as the snapshot's pieces are read. Raises ValueError if they do not
    belong together.

    Claims, names and ranges are restored piece by piece, so that a snapshot is never held in full. Pieces of an unknown
    kind are from a later version and are ignored.
    """

    def __init__(self, parts: Sequence[IndexPart]) -> None:
        self._readers = [part.restore() for part in parts]
        self._by_kind = {kind: one for part, one in zip(parts, self._readers, strict=True) for kind in part.kinds}
        self._begun: list[SnapshotPiece] = []

    def take(self, piece: SnapshotPiece) -> None:
        """Reads one piece. Restores the rest of the index after the last one."""
        if (
            piece.what != END
            and self._begun
            and (piece.what, piece.part + 1)
            != (
                self._begun[-1].what,
                self._begun[-1].part,
            )
        ):
            raise ValueError(f"piece {piece.part} of {piece.what} does not follow {self._begun[-1].what}")
        try:
            if piece.what == END:
                for reader in self._readers:
                    reader.finish()
            else:
                self._add(piece)
        except msgspec.MsgspecError as error:
            raise ValueError(f"the saved index cannot be read: {error}") from error

    def _add(self, piece: SnapshotPiece) -> None:
        self._begun.append(piece)
        if piece.part == 0:
            data = b"".join(one.data for one in self._begun)
            self._begun = []
            reader = self._by_kind.get(piece.what.partition("/")[0])
            if reader is not None:
                reader.take(piece.what, data)
