"""Defines a part of a shard's index: how entries change it, how a snapshot holds it; and makes snapshots of all parts.

A snapshot is named pieces of bytes; each part's codec is beside the part. The pieces become entries here, which replace
those that made the index when a ledger is compacted.
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
# Name and bytes. The name is the kind, or kind/number where there may be several.
Piece = tuple[str, bytes]
# Pieces in steps of a few milliseconds, between which anything may change. To be gone through, or closed.
Steps = Generator[list[Piece], None, None]
_encode = msgspec.msgpack.Encoder().encode


class Reader(Protocol):
    """Restores an empty part from its pieces, in their order. Raises ValueError: they do not belong together."""

    def take(self, what: str, data: bytes) -> None:
        """Takes the next piece in."""

    def finish(self) -> None:
        """Ends the restore, after the parts before this one in the index's list."""


@dataclass(frozen=True, slots=True)
class IndexPart:
    """Describes one part of a shard's index, by functions over its state.

    kinds: of its pieces. snapshot: begins a snapshot of this moment. restore: begins to read one.
    apply: takes one entry in by position, entry and the monotonic time in ms; returns the undo, or None when the entry
    is not about this part; undos are called newest first. None: another part applies its entries.
    count: how much there is, by kind, of what a deletion of the namespace would forget.
    """

    kinds: tuple[str, ...]
    snapshot: Callable[[], Steps]
    restore: Callable[[], Reader]
    apply: Callable[[int, Entry, int], Undo | None] | None = None
    count: Callable[[], Mapping[str, int]] = dict


class _WholeReader:
    """Restores a part that is one piece, with `absent` in place of a piece that an older snapshot does not have."""

    def __init__(self, value_type: Any, load: Callable[[Any], object], absent: Callable[[], object]) -> None:
        self._type = value_type
        self._finish = absent
        self._load = load

    def take(self, _what: str, data: bytes) -> None:
        """Decodes the piece, which is restored at the end."""
        saved = msgspec.msgpack.decode(data, type=self._type)
        self._finish = lambda: self._load(saved)

    def finish(self) -> None:
        """Restores what was read."""
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
    """Makes a part that a snapshot holds as one piece, the msgpack of a `value_type`.

    save: returns everything as values that no later change alters. load: replaces everything by them; raises
    ValueError. absent: called in place of `load` where an older snapshot has no such piece.
    """
    return IndexPart(
        (kind,), lambda: _one_step(kind, _encode(save())), partial(_WholeReader, value_type, load, absent), apply, count
    )


def _one_step(kind: str, data: bytes) -> Steps:
    yield [(kind, data)]


# A piece is one entry: far below what a frame may hold, large enough that there are few.
PIECE_BYTES = 16 << 20
END = "end"


def snapshot_steps(parts: Iterable[IndexPart]) -> Generator[list[SnapshotPiece], None, None]:
    """Makes pieces of everything that is known at the call, what waits for the ledger included.

    `part` of an entry counts the pieces that still come. In steps of a few milliseconds, between which anything may
    change: lists of names, and of what else there is, are copied at once, and all of the archives, each of which is a
    MiB of ids.

    A step raises SnapshotStopped when the claims could not be gone through to the end. To be gone through, or closed.
    """
    return _entries([part.snapshot() for part in parts])


def _entries(parts: Sequence[Steps]) -> Generator[list[SnapshotPiece], None, None]:
    # Closed whatever the end, for an error's traceback would keep them, and with them the index.
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
    """Restores a shard's index from its pieces, as they are read; ValueError when they do not belong together.

    Claims, names and ranges go into their part as they come: the next are read meanwhile, never all held. A kind of
    piece that no part has is a later version's, and passed over.
    """

    def __init__(self, parts: Sequence[IndexPart]) -> None:
        self._readers = [part.restore() for part in parts]
        self._by_kind = {kind: one for part, one in zip(parts, self._readers, strict=True) for kind in part.kinds}
        self._begun: list[SnapshotPiece] = []

    def take(self, piece: SnapshotPiece) -> None:
        """Takes one piece in; restores the rest of the index after the last one."""
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
