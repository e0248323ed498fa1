"""Adds up what the frames of a stream come to, and which rows nothing names any more."""

from oncegate.ledgers.catalog.changes import Location
from oncegate.ledgers.fold import Fold as FramesFold
from oncegate.ledgers.frames import Compacted


class Fold(FramesFold):
    """Holds what the frames so far have made. `where`: the key of the ledger; a frame lies at its serial.

    `released`: where rows may still lie that frames which were read name no more: their owner deletes them, and who
    owns the ledger after it.
    """

    def __init__(self, ledger: bytes, where: str) -> None:
        super().__init__(ledger, f"key {where}")
        self.released: list[Location] = []

    def catch_up(self) -> list[Location]:
        """Applies to the catalog, once it was made, what has changed since; returns what `apply` does."""
        gone = super().catch_up()
        self.released += gone
        return gone

    def adopt(self, compacted: Compacted, offset: int) -> None:
        """Takes note of a compaction, whose frame drops all that was released before it."""
        super().adopt(compacted, offset)
        self.released.clear()
