"""Finds remembered claims by claim id, and by the (token, call) with which a retry after a lost reply identifies
itself.

An open claim that holds ids is never forgotten. Any other claim is remembered for two leases, and for as long as
clients retry (`remember_for`). The time counts from its completion or release, or from the end of its lease if all its
ids were taken over. If memory is short, the oldest are forgotten after two leases, and earlier only when rows run out
(`forget_unnamed`).
"""

import sys
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from oncegate.index.table.rows import OPEN, Rows

# Claims forgotten per request, besides the one it may add: some microseconds each.
_FORGOTTEN_AT_ONCE = 64
# Bytes of a remembered claim: its row, and its entries in the dictionaries.
SETTLED_BYTES = 440


@dataclass(frozen=True, slots=True)
class ClaimRecord:
    """A remembered claim: its caller (token of 16 bytes, and call), the digest of its request, and its rows."""

    token: bytes
    call: int
    digest: bytes
    rows: tuple[int, ...]


class ClaimRegistry:
    """Remembered claims, in two dictionaries over `rows`. An expired claim that is not removed yet is not found either.

    The facts of a claim are in its rows' arrays, so the dictionaries hold no objects that garbage collection would
    visit.
    """

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._by_claim: dict[bytes, tuple[int, ...]] = {}
        self._by_call: dict[tuple[bytes, int], bytes] = {}
        self._ending: deque[bytes] = deque()
        self._known_ms, self._settled_max = 0, sys.maxsize
        # No claim expires before these times: for the full retention, and for two leases.
        self._next_ms = [0, 0]
        # Number of claims forgotten two leases after their end to save memory.
        self.forgotten_early = 0

    def get(self, claim: bytes, now_ms: int) -> ClaimRecord | None:
        """Returns a claim by its id; None if it is unknown or expired."""
        rows = self._by_claim.get(claim)
        return self._record(rows) if rows is not None and self._is_remembered(rows, now_ms) else None

    def at_any_age(self, claim: bytes) -> ClaimRecord | None:
        """Returns a claim even if it has expired, for an entry that was written before; None if the claim is
        forgotten.
        """
        rows = self._by_claim.get(claim)
        return None if rows is None else self._record(rows)

    def find(self, token: bytes, call: int, now_ms: int) -> tuple[bytes, ClaimRecord] | None:
        """Returns the claim made by this (token, call), with its id; None if none is remembered."""
        claim = self._by_call.get((token, call))
        record = None if claim is None else self.get(claim, now_ms)
        return None if claim is None or record is None else (claim, record)

    def put(self, claim: bytes, record: ClaimRecord) -> tuple[ClaimRecord | None, bytes | None]:
        """Remembers a claim. Returns the previous records for `put_back`."""
        before = self.at_any_age(claim), self._by_call.get((record.token, record.call))
        self._by_claim[claim] = record.rows
        self._by_call[record.token, record.call] = claim
        return before

    def put_back(self, claim: bytes, before: tuple[ClaimRecord | None, bytes | None]) -> None:
        """Undoes `put`, given what it returned."""
        record = self._record(self._by_claim.pop(claim))
        if before[0] is not None:
            self._by_claim[claim] = before[0].rows
        if before[1] is None or before[1] not in self._by_claim:
            del self._by_call[record.token, record.call]
        else:
            self._by_call[record.token, record.call] = before[1]

    def is_ending(self, claim: bytes) -> None:
        """Queues a claim to be forgotten once it holds no ids that its claimant could complete or release."""
        self._ending.append(claim)

    def remember_for(self, known_ms: int, size_bytes: int) -> None:
        """Keeps ended claims for at least `known_ms`, as long as they use no more than `size_bytes`."""
        self._known_ms, self._settled_max = known_ms, size_bytes // SETTLED_BYTES

    def forget_due(self, now_ms: int, early: bool = False) -> None:
        """Forgets a bounded number of expired claims. Answers do not change.

        early: also claims that ended two leases ago, as if there were too many. Their claimants then get UNKNOWN_CLAIM.
        """
        for _ in range(_FORGOTTEN_AT_ONCE):
            hurried = early or len(self._ending) > self._settled_max
            if not self._ending or now_ms < self._next_ms[hurried]:
                return
            self._forget_first(now_ms, hurried)

    def _forget_first(self, now_ms: int, hurried: bool) -> None:
        """Forgets the claim that ended first, or, if it has not expired, sets the time of the next attempt."""
        claim = self._ending[0]
        rows = self._by_claim.get(claim)
        until_ms = None if rows is None else self._rows.remembered_until_ms(rows, 0 if hurried else self._known_ms)
        if rows is not None and until_ms is not None and now_ms < until_ms:
            self._next_ms[hurried] = until_ms
            return
        self._ending.popleft()
        if rows is None or until_ms is None:
            return
        if self._pinned(rows):
            # An undo may open it again; if not, its turn comes again.
            self._ending.append(claim)
        else:
            self.forgotten_early += self._is_remembered(rows, now_ms)
            self._forget(claim, self._record(rows))

    def forget_old(self, now_ms: int) -> None:
        """Forgets every expired claim. Answers do not change. A pinned claim may be reopened by an undo and is kept."""
        self._next_ms = [0, 0]
        ending, self._ending = self._ending, deque()
        for claim in ending:
            rows = self._by_claim.get(claim)
            if rows is None or self._rows.remembered_until_ms(rows) is None:
                continue
            if self._is_remembered(rows, now_ms) or self._pinned(rows):
                self._ending.append(claim)
            else:
                self._forget(claim, self._record(rows))

    def forget(self, claim: bytes) -> None:
        """Forgets an ended claim, even if it has not expired."""
        record = self.at_any_age(claim)
        if record is not None:
            self._forget(claim, record)

    def forget_unnamed(self, rows_needed: int) -> None:
        """Forgets claims to which no slot points until `rows_needed` rows are free: ended claims first, oldest first.

        Their claimants get UNKNOWN_CLAIM from now on, and a late repeat counts as a new claim.
        """
        rows, holders = self._rows, self._rows.holders
        idle = np.flatnonzero(rows.used & (holders.remembered != 0) & (holders.slots == 0) & (holders.pins == 0))
        order = np.lexsort((holders.position[idle], holders.state[idle] == OPEN))
        for row in idle[order]:
            claim = rows.claim[row].tobytes()
            record = self.at_any_age(claim)
            if rows.free >= rows_needed:
                break
            if record is not None and not rows.open_total(record.rows) and not self._pinned(record.rows):
                self._forget(claim, record)

    def all(self) -> Iterable[tuple[bytes, tuple[int, ...]]]:
        """Returns every claim with its rows, in order. Of several claims of one call the newest, which answers repeats,
        is last.
        """
        return self._by_claim.items()

    def __len__(self) -> int:
        return len(self._by_claim)

    def _record(self, rows: tuple[int, ...]) -> ClaimRecord:
        holders, first = self._rows.holders, rows[0]
        digest = self._rows.digest[first].tobytes()
        return ClaimRecord(holders.token[first].tobytes(), int(holders.call[first]), digest, rows)

    def _is_remembered(self, rows: tuple[int, ...], now_ms: int) -> bool:
        until_ms = self._rows.remembered_until_ms(rows, self._known_ms)
        return until_ms is None or now_ms < until_ms

    def _pinned(self, rows: tuple[int, ...]) -> bool:
        return any(self._rows.holders.pins[row] for row in rows)

    def _forget(self, claim: bytes, record: ClaimRecord) -> None:
        for row in record.rows:
            self._rows.holders.remembered[row] = 0
        self._rows.give_back_idle(record.rows)
        del self._by_claim[claim]
        if self._by_call.get((record.token, record.call)) == claim:
            del self._by_call[record.token, record.call]
