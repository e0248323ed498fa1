"""An index with a ledger position, a clock and short names, for tests."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from oncegate.core.entries.kinds import Claimed, Completed, Released
from oncegate.core.verdicts import BY_BYTE
from oncegate.index.claims.apply import ClaimUndo
from oncegate.index.claims.results import ClaimDecision
from oncegate.index.claims.store import Widths
from oncegate.index.table.arrays import NO_DIGESTS
from tests.support.index.claim_index import ClaimIndex

NARROW = Widths(tag_bits=16, row_bits=8, capacity=8, segments=4)
LEASE_MS = 1_000


def fingerprints(numbers: Iterable[int]) -> np.ndarray:
    """Returns a fingerprint for each number: spread over the table, and distinct even with 16-bit tags."""
    chosen = np.array(list(numbers), np.uint64).reshape(-1, 1)
    odd = np.array([[0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93]], np.uint64)
    return chosen * odd + np.uint64(1)


def name(letter: str, length: int = 16) -> bytes:
    """Returns a readable token or claim id."""
    return letter.encode().ljust(length, b".")


@dataclass(frozen=True)
class Answer:
    """`verdicts`: the words and the number of each id. `undo` is None if nothing was written."""

    asked: ClaimDecision
    claim: bytes | None
    undo: ClaimUndo | None

    @property
    def verdicts(self) -> list[tuple[str, int]]:
        rows = [BY_BYTE[byte] for byte in self.asked.verdicts.tolist()]
        numbers = self.asked.numbers.tolist()
        words = ["+".join([row.verdict.name, *(flag.name or "" for flag in row.flags)]) for row in rows]
        return list(zip(words, numbers, strict=True))

    @property
    def words(self) -> list[str]:
        return [word for word, _ in self.verdicts]


class Driver:
    """Drives an index; ids are numbers. With `settled=False` a change stays pending: it can be undone, and pins its
    rows."""

    fingerprints: Callable[[Iterable[int]], np.ndarray] = staticmethod(fingerprints)

    def __init__(self, widths: Widths | None = None, compiled: bool = True) -> None:
        self.index = ClaimIndex(widths or Widths(), compiled)
        self.position = 0
        self.now_ms = 0
        self.entries: list[tuple[int, Claimed | Completed | Released]] = []

    def decide(
        self,
        token: str,
        call: int,
        ids: Sequence[int],
        asks: Sequence[int] | None = None,
        digests: np.ndarray = NO_DIGESTS,
    ) -> ClaimDecision:
        """Decides like `claim`. `asks`: the ids to look up if the request (and its digest) named more."""
        digest = bytes(i % 251 for i in ids)[:16].ljust(16, b"!")
        seen = self.fingerprints(ids if asks is None else asks)
        return self.index.decide(name(token), call, digest, seen, self.now_ms, digests=digests)

    def claim(
        self,
        token: str,
        call: int,
        ids: Sequence[int],
        lease_ms: int = LEASE_MS,
        settled: bool = True,
        digests: np.ndarray = NO_DIGESTS,
    ) -> Answer:
        """Claims ids. `digests`: the payload digest of each id."""
        decision = self.decide(token, call, ids, digests=digests)
        if decision.again and decision.claim is not None:
            self.index.renew(decision.claim, self.now_ms)
        if not len(decision.fresh) and not len(decision.taken):
            return Answer(decision, decision.claim, None)
        claim = name(f"{token}{call}/{self.position}")
        digest = bytes(i % 251 for i in ids)[:16].ljust(16, b"!")
        fresh, taken = decision.fresh.tobytes(), decision.taken.tobytes()
        entry = Claimed(claim, name(token), call, digest, lease_ms, 7_000 + self.now_ms, fresh, taken, decision.digests)
        self.index.make_room(len(decision.fresh) + len(decision.taken), self.now_ms, digests=bool(decision.digests))
        return Answer(decision, claim, self.apply(entry, settled))

    def complete(self, claim: bytes | None, settled: bool = True, result: bytes = b"") -> ClaimUndo:
        assert claim is not None
        return self.apply(Completed(claim, 8_000 + self.now_ms, result), settled)

    def release(self, claim: bytes | None, settled: bool = True) -> ClaimUndo:
        assert claim is not None
        return self.apply(Released(claim, 9_000 + self.now_ms), settled)

    def apply(self, entry: Claimed | Completed | Released, settled: bool = True) -> ClaimUndo:
        self.position += 1
        undo = self.index.apply(self.position, entry, self.now_ms)
        self.entries.append((self.position, entry))
        if settled:
            self.index.settle(undo)
        return undo

    def undo(self, undo: ClaimUndo) -> None:
        self.index.undo(undo)
        self.entries.pop()
        self.position -= 1
