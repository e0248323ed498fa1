"""Remembers claims that can still be named: by claim id, and by the (token, call) that a lost reply is repeated with.

An open claim that holds ids is never forgotten. Any other is remembered for two leases, and as long as clients retry
(`remember_for`): from its settling, or from the end of the lease of one whose ids were all taken over. Where memory
has to be found, the oldest go after two leases; earlier only when rows run out (`forget_unnamed`).
"""

import sys
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from oncegate.index.table.rows import OPEN, Rows

# Claims forgotten at one request, beyond the one it may bring: some microseconds each.
_FORGOTTEN_AT_ONCE = 64
# Of a claim that can be named: its row, and what the dictionaries hold.
SETTLED_BYTES = 440


@dataclass(frozen=True, slots=True)
class ClaimRecord:
    """Describes a claim as it is remembered: who made it (16 bytes and a call), the digest of its request, its rows."""

    token: bytes
    call: int
    digest: bytes
    rows: tuple[int, ...]


class ClaimRegistry:
    """Remembers claims in two dictionaries over `rows`; one past its time that is not yet dropped is not found either.

    What a claim is stands in its rows' arrays: the dictionaries hold nothing that a garbage collection walks through.
    """

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._by_claim: dict[bytes, tuple[int, ...]] = {}
        self._by_call: dict[tuple[bytes, int], bytes] = {}
        self._ending: deque[bytes] = deque()
        self._known_ms, self._settled_max = 0, sys.maxsize
        # Before these nothing is past its time: the whole time, and that of two leases.
        self._next_ms = [0, 0]
        # How many claims were forgotten for memory, two leases after their end.
        self.forgotten_early = 0

    def get(self, claim: bytes, now_ms: int) -> ClaimRecord | None:
        """Finds a claim by its name; None when it is unknown or its time is past."""
        rows = self._by_claim.get(claim)
        return self._record(rows) if rows is not None and self._is_remembered(rows, now_ms) else None

    def at_any_age(self, claim: bytes) -> ClaimRecord | None:
        """Returns a claim whatever its time, for an entry that was written when it was known; None: forgotten."""
        rows = self._by_claim.get(claim)
        return None if rows is None else self._record(rows)

    def find(self, token: bytes, call: int, now_ms: int) -> tuple[bytes, ClaimRecord] | None:
        """Returns the claim that this (token, call) made, with its id; None: none that is remembered."""
        claim = self._by_call.get((token, call))
        record = None if claim is None else self.get(claim, now_ms)
        return None if claim is None or record is None else (claim, record)

    def put(self, claim: bytes, record: ClaimRecord) -> tuple[ClaimRecord | None, bytes | None]:
        """Remembers a claim; returns what stood there before, for `put_back`."""
        before = self.at_any_age(claim), self._by_call.get((record.token, record.call))
        self._by_claim[claim] = record.rows
        self._by_call[record.token, record.call] = claim
        return before

    def put_back(self, claim: bytes, before: tuple[ClaimRecord | None, bytes | None]) -> None:
        """Takes `put` back, with what it returned."""
        record = self._record(self._by_claim.pop(claim))
        if before[0] is not None:
            self._by_claim[claim] = before[0].rows
        if before[1] is None or before[1] not in self._by_claim:
            del self._by_call[record.token, record.call]
        else:
            self._by_call[record.token, record.call] = before[1]

    def is_ending(self, claim: bytes) -> None:
        """Lets a claim be forgotten in its time: it holds no ids any more that its claimant could settle."""
        self._ending.append(claim)

    def remember_for(self, known_ms: int, size_bytes: int) -> None:
        """Lets ended claims be known for `known_ms` at least, while they take no more than so many bytes."""
        self._known_ms, self._settled_max = known_ms, size_bytes // SETTLED_BYTES

    def forget_due(self, now_ms: int, early: bool = False) -> None:
        """Drops a bounded number of those that are past their time; no answer changes by it.

        `early`: or past two leases, as where they are too many. Their claimants are then answered UNKNOWN_CLAIM.
        """
        for _ in range(_FORGOTTEN_AT_ONCE):
            hurried = early or len(self._ending) > self._settled_max
            if not self._ending or now_ms < self._next_ms[hurried]:
                return
            self._forget_first(now_ms, hurried)

    def _forget_first(self, now_ms: int, hurried: bool) -> None:
        """Drops the one that ended first; while it is not past its time, nothing is looked at again."""
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
            # It may yet be open again; if not, it is looked at in its turn.
            self._ending.append(claim)
        else:
            self.forgotten_early += self._is_remembered(rows, now_ms)
            self._forget(claim, self._record(rows))

    def forget_old(self, now_ms: int) -> None:
        """Drops everything past its time; no answer changes by it. What is pinned may yet be open again, and stays."""
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
        """Drops one that is settled, whatever its time."""
        record = self.at_any_age(claim)
        if record is not None:
            self._forget(claim, record)

    def forget_unnamed(self, rows_needed: int) -> None:
        """Drops claims that no slot names until `rows_needed` rows are free: settled ones first, the oldest first.

        Their claimants are answered UNKNOWN_CLAIM from now on, and a late repeat is a new claim.
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
        """Returns each claim and its rows in order; of one call's the newest last, which a repeat is taken for."""
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
