"""The replay state of a ledger on a server: built from its frames at the opening, then kept current by its owner."""

from collections.abc import Iterable

from oncegate.core.errors import LedgerDamaged
from oncegate.ledgers.catalog import Catalog, CatalogChange, Location, SnapshotChange
from oncegate.ledgers.chain import FIRST_CHAIN
from oncegate.ledgers.frames import AnyChange, Compacted, End, Frame, Owned, Sent
from oncegate.packed import PackedList
from oncegate.ports import Mark

# Last position, offset, serial and chain of the ledger position: for each frame with entries.
_FRAME = "<QQQ8s"
# Serial and previous chain of each frame.
_LINK = "<Q16s"


class Fold:
    """Replay state of a ledger: the result of the frames applied so far.
    `where` names the ledger's location in messages.

    Until `settle`, `catalog` lacks the catalog saved by the last compaction and the changes in `pending`. `compacted`
    is None if there was no compaction.
    """

    def __init__(self, ledger: bytes, where: str) -> None:
        self._ledger = ledger
        self._where = where
        self._frames = PackedList(_FRAME)
        self._links = PackedList(_LINK)
        self.catalog = Catalog()
        self.compacted: Compacted | None = None
        self.pending: list[CatalogChange] = []
        self.settled = False
        # Offset of the first frame still needed.
        self.ledger_from = 0
        # Offset of the last frame.
        self.last_offset = 0
        self.generation = 0
        self.key = b""
        self.end = End(0, 0, FIRST_CHAIN)
        self.mark = Mark(ledger, 0, bytes(8))

    def take(self, frame: Frame) -> None:
        """Applies the next frame. Raises LedgerDamaged if it does not follow the last one."""
        self._require_next(frame)
        before = End(frame.serial - 1, frame.first_position - 1, frame.previous_chain)
        self.advance(frame.offset, before, frame.end)
        for change in frame.body.changes:
            self._take(change, frame.offset)
            if self.settled and isinstance(change, Compacted):
                # The changes after it repeat those of earlier frames, which were applied already.
                break

    def advance(self, offset: int, before: End, end: End) -> None:
        """Records a frame written at `offset`, after which the ledger ends at `end`.

        `before`: the end of the ledger before this frame; the frames up to it may have been deleted.
        """
        self._links.append(end.serial, before.chain)
        if end.position > before.position:
            self.mark = Mark(self._ledger, end.position, end.chain[:8])
            self._frames.append(end.position, offset, end.serial, self.mark.chain)
        self.end, self.last_offset = end, offset

    def _require_next(self, frame: Frame) -> None:
        if frame.ledger != self._ledger:
            raise LedgerDamaged(
                f"{self._where} holds ledger {frame.ledger.hex()}, and the list of namespaces says "
                f"{self._ledger.hex()}; nothing was changed, put it back that belongs here"
            )
        if not len(self._links):
            return
        if (frame.serial, frame.first_position) != (self.end.serial + 1, self.end.position + 1) or (
            frame.previous_chain != self.end.chain
        ):
            raise LedgerDamaged(
                f"{self._where}, offset {frame.offset}: frame {frame.serial} does not follow frame "
                f"{self.end.serial} of this history; nothing was changed, put it back from a copy"
            )

    def _take(self, change: AnyChange, offset: int) -> None:
        match change:
            case Owned():
                self.generation, self.key = change.generation, change.key
            case Compacted():
                self.adopt(change, offset)
                self.pending, self.key = self.pending if self.settled else [], change.key
            case Sent():
                self.take_sent(change)
            case _:
                self.pending.append(change)

    def take_sent(self, change: Sent) -> None:
        """Records the locations of rows sent to user topics; ledgers that send rows override it."""

    def adopt(self, compacted: Compacted, offset: int) -> None:
        """Applies a compaction whose frame is at `offset`: drops frames before the first needed one."""
        self.compacted = compacted
        if self.mark.position < compacted.position:
            self.mark = compacted.mark
        self._frames.drop(self._frames.not_above(compacted.position))
        self._links.drop(self._links.not_above(compacted.first_serial - 1))
        self.ledger_from = self._frames[0][1] if len(self._frames) else offset

    def settle(self, pieces: Iterable[bytes]) -> list[Location]:
        """Builds the catalog from the pieces saved by the last compaction and the later changes.

        Returns the locations whose rows are no longer referenced after these changes. Raises ValueError for invalid
        pieces.
        """
        for piece in pieces:
            self.catalog.take(piece)
        self.settled = True
        return self.catch_up()

    def catch_up(self) -> list[Location]:
        """Applies the pending changes to the catalog; returns the locations whose rows are no longer referenced."""
        pending, self.pending = self.pending, []
        return self.apply(pending)

    def apply(self, changes: Iterable[SnapshotChange]) -> list[Location]:
        """Applies changes to the catalog; returns the locations whose rows are no longer referenced."""
        return [gone for change in changes for gone in self.catalog.apply(change)]

    def require_whole(self, witness: End | None, proved: bool) -> None:
        """Raises LedgerDamaged if the first needed frame is missing,
        or the ledger ends before the end that its witness saw.

        `proved`: the ledger is known to have had an owner before.
        """
        if proved and not len(self._links):
            raise self._damage("is empty, and was not: it was made anew or deleted")
        compacted = self.compacted
        if compacted is not None and self.chain_before(compacted.first_serial) != compacted.previous_chain:
            raise self._damage(f"lacks frame {compacted.first_serial}, the first behind the last compaction")
        if compacted is None and len(self._links) and self.chain_before(1) != FIRST_CHAIN:
            raise self._damage("lacks its first frames: it was cut, or shortened by others than a gateway")
        if witness is not None:
            self._require_witnessed(witness)

    def _require_witnessed(self, witness: End) -> None:
        if witness.serial > self.end.serial:
            raise self._damage(
                f"ends at frame {self.end.serial} (position {self.end.position}), and its witness saw frame "
                f"{witness.serial} (position {witness.position}): acknowledged entries would be forgotten"
            )
        seen = self.end.chain if witness.serial == self.end.serial else self.chain_before(witness.serial + 1)
        if seen is not None and seen != witness.chain:
            raise self._damage(f"has another history up to frame {witness.serial} than its witness saw")

    def _damage(self, what: str) -> LedgerDamaged:
        return LedgerDamaged(f"{self._where} {what}; nothing was changed, put it back from a copy")

    def first_after(self, position: int) -> tuple[int, int] | None:
        """Returns offset and serial of the first frame with entries after `position`, or None."""
        at = self._frames.not_above(position)
        return self._frames[at][1:3] if at < len(self._frames) else None

    def chain_before(self, serial: int) -> bytes | None:
        """Returns the previous chain of frame `serial`, or None if unknown."""
        at = self._links.not_above(serial) - 1
        return self._links[at][1] if at >= 0 and self._links[at][0] == serial else None

    def holds(self, end: End) -> bool:
        """Returns whether the ledger once ended at `end`."""
        return end == self.end or self.chain_before(end.serial + 1) == end.chain

    def mark_at(self, position: int) -> Mark:
        """Returns the ledger position of the append that ended at `position`.

        Raises ValueError if no append ended there or it is compacted away.
        """
        compacted = self.compacted
        at = self._frames.not_above(position) - 1
        if at >= 0 and self._frames[at][0] == position:
            return Mark(self._ledger, position, self._frames[at][3])
        if compacted is not None and compacted.position == position:
            return compacted.mark
        raise ValueError(f"no append that is still known ended at position {position}")
