"""Remembers every ledger position that was sent to clients, in 16 bytes each, to check the positions that clients send
back.

Positions below the last compaction are dropped. For these, only the fact that the ledger is past them is known.
"""

from array import array
from bisect import bisect_left
from collections.abc import Sequence

from oncegate.core.errors import LedgerBehind
from oncegate.ports import Mark


class Marks:
    """The position and chain at the end of every append.

    predecessors: ids that the ledger had before it was restored or accepted.
    compacted: position up to which a snapshot had replaced its entries when it was opened.
    """

    def __init__(self, ledger: bytes, predecessors: Sequence[bytes] = (), compacted: int = 0) -> None:
        self._ledger = ledger
        self._predecessors = frozenset(predecessors)
        self._compacted = compacted
        self._positions = array("Q")
        self._chains = array("Q")

    @property
    def ledger(self) -> bytes:
        return self._ledger

    @property
    def last(self) -> Mark:
        """The last durable ledger position; 0 before the first append."""
        if not self._positions:
            return Mark(self._ledger, 0, bytes(8))
        return Mark(self._ledger, self._positions[-1], self._chains[-1].to_bytes(8, "little"))

    @property
    def compacted_to(self) -> int:
        """The position up to which a snapshot replaced the entries; 0 if all entries are kept."""
        return self._compacted

    def add(self, mark: Mark) -> None:
        """Adds a durable ledger position, unless it is already the last position."""
        if mark.position and (not self._positions or mark.position > self._positions[-1]):
            self._positions.append(mark.position)
            self._chains.append(int.from_bytes(mark.chain, "little"))

    def compacted(self, position: int) -> None:
        """Drops the marks below `position`, whose entries a snapshot replaced; from then on `require` accepts any mark
        below `position`."""
        at = bisect_left(self._positions, position)
        del self._positions[:at], self._chains[:at]
        self._compacted = position

    def is_of_predecessor(self, mark: Mark) -> bool:
        """Returns whether the mark carries a former id of this ledger: an operator has accepted a loss of entries
        since."""
        return mark.ledger in self._predecessors

    def holds(self, mark: Mark) -> bool:
        """Returns whether this ledger's history contains the mark's position and chain, whatever its id; False if
        unknown."""
        at = bisect_left(self._positions, mark.position)
        return at < len(self._positions) and self._at(at) == _position_and_chain(mark)

    def _at(self, at: int) -> tuple[int, int]:
        return self._positions[at], self._chains[at]

    def require(self, mark: Mark) -> None:
        """Raises LedgerBehind unless the mark is in this ledger's history, or below the last compaction."""
        if mark.ledger != self._ledger:
            raise LedgerBehind(
                f"the mark is of ledger {mark.ledger.hex()}, this one is {self._ledger.hex()}: "
                "the namespace was created anew, or this is another gateway"
            )
        if mark.position < self._compacted:
            return
        at = bisect_left(self._positions, mark.position)
        if at == len(self._positions):
            last = self._positions[-1] if self._positions else 0
            raise LedgerBehind(
                f"the mark stands at position {mark.position}, this ledger ends at {last}: "
                "it is an older copy, and what came after it would be granted again"
            )
        if self._at(at) != _position_and_chain(mark):
            raise LedgerBehind(
                f"at position {mark.position} this ledger has another history: it is an older copy that went on"
            )


def _position_and_chain(mark: Mark) -> tuple[int, int]:
    return mark.position, int.from_bytes(mark.chain, "little")
