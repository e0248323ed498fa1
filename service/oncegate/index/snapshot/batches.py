"""Turns the index of named batches into pieces, and back: what a compacted ledger holds in place of old entries.

names/<n>        some of the last committed names
older_names/<n>  records of older ones, as `index.older_names` describes them
older_reads/<n>  the same, with the digest of what they read in place of that of their input
stages/<n>       some of the stages
batches          the rest, behind the others
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import msgspec

from oncegate.core.entries.kinds import Name
from oncegate.index.batches import BatchIndex, Stage
from oncegate.index.committed_names import CommittedName

KINDS = ("names", "older_names", "older_reads", "stages", "batches")
_RECORDS = ("older_names", "older_reads")
# Encoded in one step, in a millisecond or two; blocks are bytes already, a MiB of them.
_NAMES_PER_PIECE, _STAGES_PER_PIECE, _BLOCKS_PER_PIECE = 500, 500, 34

Piece = tuple[str, bytes]
_Named = tuple[Name, CommittedName]
_encode = msgspec.msgpack.Encoder().encode


@dataclass(frozen=True, slots=True)
class BatchesSnapshot:
    """Holds what stands in no other piece: two numbers, and of each kind of piece how many came before."""

    suppressed_rows: int
    older_position: int
    pieces: int


def snapshot_steps(index: BatchIndex) -> Generator[list[Piece], None, None]:
    """Makes pieces of everything that is known at the call, a step at a time; anything may change between."""
    committed = index.committed
    names, older, reads = list(committed.last.items()), committed.older.frozen(), committed.older_reads.frozen()
    stages = [(name, Stage(stage.owner, stage.token, dict(stage.chunks))) for name, stage in index.all_stages()]
    lists: list[tuple[str, list[Any], int]] = [
        ("names", names, _NAMES_PER_PIECE),
        ("older_names", older, _BLOCKS_PER_PIECE),
        ("older_reads", reads, _BLOCKS_PER_PIECE),
        ("stages", stages, _STAGES_PER_PIECE),
    ]
    return _steps(lists, index.suppressed_rows, committed.older_position)


def _steps(
    lists: list[tuple[str, list[Any], int]], suppressed_rows: int, older_position: int
) -> Generator[list[Piece], None, None]:
    pieces = 0
    for kind, listed, count in lists:
        for number, at in enumerate(range(0, len(listed), count)):
            some = listed[at : at + count]
            yield [(f"{kind}/{number}", b"".join(some) if kind in _RECORDS else _encode(some))]
            pieces += 1
    yield [("batches", _encode(BatchesSnapshot(suppressed_rows, older_position, pieces)))]


class BatchesReader:
    """Restores an empty index from its pieces, in their order. ValueError: they do not belong together."""

    def __init__(self, index: BatchIndex) -> None:
        self._index = index
        self._names: list[_Named] = []
        self._stages: list[tuple[Name, Stage]] = []
        self._taken = 0
        self._whole = False

    def take(self, what: str, data: bytes) -> None:
        """Takes the next piece in."""
        kind = what.partition("/")[0]
        if kind == "batches":
            self._end(msgspec.msgpack.decode(data, type=BatchesSnapshot))
            return
        self._taken += 1
        if kind == "names":
            self._names += msgspec.msgpack.decode(data, type=list[_Named])
        elif kind == "stages":
            self._stages += msgspec.msgpack.decode(data, type=list[tuple[Name, Stage]])
        elif kind == "older_reads":
            self._index.committed.older_reads.extend(data)
        else:
            self._index.committed.older.extend(data)

    def finish(self) -> None:
        """Ends the restore: that was all."""
        if not self._whole:
            raise ValueError("the saved index has no batches")

    def _end(self, rest: BatchesSnapshot) -> None:
        if rest.pieces != self._taken:
            raise ValueError(f"{self._taken} pieces of batches, and {rest.pieces} were saved")
        names, stages = self._names, self._stages
        self._index.committed.restore(names)
        self._index.committed.older_position = rest.older_position
        self._index.restore_stages(stages)
        self._index.suppressed_rows = rest.suppressed_rows
        self._names, self._stages, self._whole = [], [], True
