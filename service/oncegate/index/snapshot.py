"""Makes a whole shard's index into entries, and back: they replace those that made it when a ledger is compacted."""

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from itertools import chain

import msgspec

from oncegate.core.entries.kinds import SnapshotPiece
from oncegate.index.part import IndexPart, Steps

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
