"""Saves an index in steps during a walk, and loads it again."""

import random
from collections.abc import Iterator

from oncegate.index.claims.apply import ClaimUndo
from oncegate.index.claims.snapshot import SnapshotStopped, restore
from oncegate.index.claims.store import Widths
from tests.support.index.claim_index import ClaimIndex
from tests.support.index.walks import Walk

Pieces = dict[str, bytes]


def loaded(pieces: Pieces, widths: Widths, now_ms: int = 0, compiled: bool = True) -> ClaimIndex:
    index = ClaimIndex(widths, compiled)
    restore(index.store, pieces)
    index.reset_leases(now_ms)
    return index


class Lasting(Walk):
    """A walk without refusals."""

    def undo(self, undo: ClaimUndo) -> None:
        self.index.settle(undo)


Steps = Iterator[list[tuple[str, bytes]]]


def go_on(steps: Steps, walk: Walk, rng: random.Random) -> dict[str, bytes] | None:
    """Finishes a save while the walk continues between its steps. Returns None if the save was stopped."""
    pieces: dict[str, bytes] = {}
    try:
        for ready in steps:
            pieces |= ready
            for _ in range(rng.randrange(4)):
                walk.step()
    except SnapshotStopped:
        return None
    return pieces
