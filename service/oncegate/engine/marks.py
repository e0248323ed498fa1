"""Every mark this ledger ever gave, in 16 bytes each, so that one brought back can be found."""

from array import array
from bisect import bisect_left

from oncegate.core.errors import LedgerBehind
from oncegate.ports import Mark


class Marks:
    """Position and chain at the end of every append."""

    def __init__(self, ledger: bytes) -> None:
        self._ledger = ledger
        self._positions = array("Q")
        self._chains = array("Q")

    def add(self, mark: Mark) -> None:
        """Remember a durable mark; no effect when it is the last one known."""
        if mark.position and (not self._positions or mark.position > self._positions[-1]):
            self._positions.append(mark.position)
            self._chains.append(int.from_bytes(mark.chain, "little"))

    def require(self, mark: Mark) -> None:
        """LedgerBehind unless this ledger once stood just there."""
        if mark.ledger != self._ledger:
            raise LedgerBehind(
                f"the mark is of ledger {mark.ledger.hex()}, this one is {self._ledger.hex()}: "
                "the namespace was created anew, or this is another gateway"
            )
        at = bisect_left(self._positions, mark.position)
        if at == len(self._positions):
            last = self._positions[-1] if self._positions else 0
            raise LedgerBehind(
                f"the mark stands at position {mark.position}, this ledger ends at {last}: "
                "it is an older copy, and what came after it would be granted again"
            )
        if (self._positions[at], self._chains[at]) != (mark.position, int.from_bytes(mark.chain, "little")):
            raise LedgerBehind(
                f"at position {mark.position} this ledger has another history: it is an older copy that went on"
            )
