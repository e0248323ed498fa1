"""The claims that can still be named: by their claim id, and by the (token, call) that a lost reply is repeated with.

An open claim that holds ids is never forgotten. Any other is remembered for two leases: from its settling, or from
the end of the lease of one whose ids were all taken over. Earlier only when rows run out (`forget_unnamed`).
"""

from dataclasses import dataclass

import numpy as np

from oncegate.index.rows import OPEN, Rows


@dataclass(frozen=True, slots=True)
class Known:
    token: bytes
    call: int
    digest: bytes
    rows: tuple[int, ...]


class KnownClaims:
    """Two dictionaries over `rows`; an entry that is past its time but not yet dropped is not found either."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._by_claim: dict[bytes, Known] = {}
        self._by_call: dict[tuple[bytes, int], bytes] = {}

    def get(self, claim: bytes, now_ms: int) -> Known | None:
        known = self._by_claim.get(claim)
        return known if known is not None and self._rows.remembered(known.rows, now_ms) else None

    def at_any_age(self, claim: bytes) -> Known | None:
        """For the fold, where an entry says that the claim was known when it was written."""
        return self._by_claim.get(claim)

    def find(self, token: bytes, call: int, now_ms: int) -> tuple[bytes, Known] | None:
        """The claim that this (token, call) made."""
        claim = self._by_call.get((token, call))
        known = None if claim is None else self.get(claim, now_ms)
        return None if claim is None or known is None else (claim, known)

    def put(self, claim: bytes, known: Known) -> tuple[Known | None, bytes | None]:
        """Remember; what stood there before, for `put_back`."""
        before = self._by_claim.get(claim), self._by_call.get((known.token, known.call))
        self._by_claim[claim] = known
        self._by_call[known.token, known.call] = claim
        return before

    def put_back(self, claim: bytes, before: tuple[Known | None, bytes | None]) -> None:
        """Undo `put`."""
        known = self._by_claim.pop(claim)
        if before[0] is not None:
            self._by_claim[claim] = before[0]
        if before[1] is None or before[1] not in self._by_claim:
            del self._by_call[known.token, known.call]
        else:
            self._by_call[known.token, known.call] = before[1]

    def forget_old(self, now_ms: int) -> None:
        """Drop what is past its time; no answer changes by it. What is pinned may yet be open again, and stays."""
        rows = self._rows
        due = rows.used & rows.kept & (rows.remembered_until_ms() <= now_ms)
        for row in np.flatnonzero(due):
            claim = rows.claim[row].tobytes()
            known = self._by_claim.get(claim)
            if known is not None and not rows.remembered(known.rows, now_ms) and not self._pinned(known):
                self._forget(claim, known)

    def forget_unnamed(self, wanted: int) -> None:
        """Drop claims that no slot names until `wanted` rows are free: settled ones first, the oldest first.

        Their claimants are answered UNKNOWN_CLAIM from now on, and a late repeat is a new claim.
        """
        rows, holders = self._rows, self._rows.holders
        idle = np.flatnonzero(rows.used & rows.kept & (holders.slots == 0) & (holders.pins == 0))
        order = np.lexsort((holders.position[idle], holders.state[idle] == OPEN))
        free = rows.free
        for row in idle[order]:
            claim = rows.claim[row].tobytes()
            known = self._by_claim.get(claim)
            if free >= wanted:
                break
            if known is None or rows.open_total(known.rows) or self._pinned(known):
                continue
            self._forget(claim, known)
            free += int(np.count_nonzero(holders.slots[list(known.rows)] == 0))
        rows.reclaim()

    def _pinned(self, known: Known) -> bool:
        return any(self._rows.holders.pins[row] for row in known.rows)

    def _forget(self, claim: bytes, known: Known) -> None:
        self._rows.kept[list(known.rows)] = False
        del self._by_claim[claim]
        if self._by_call.get((known.token, known.call)) == claim:
            del self._by_call[known.token, known.call]
