"""Rows as arrays: one per claim and kind of grant (fresh, taken over).

A row's number is local to this process, reused and never shown; the ledger position is the permanent identity. A row is
free once no slot names it (`slots` is 0 after a sweep), its claim can no longer be named (`remembered` is 0) and no
change that names it can be undone (`pins` is 0). The operation that makes the last of these true frees it.
"""

import sys
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oncegate.arraytypes import I64, U8, U32, U64
from oncegate.core.claims import ClaimState
from oncegate.index.table.arrays import TAKEN, Holders, reserve
from oncegate.index.table.grants import Grant
from oncegate.index.writers import WORDS, words_of

# Plain integers: reading an enum's members is slow, and these are read for every claim.
OPEN, DONE, RELEASED, UNKNOWN = (int(state) for state in ClaimState)
LIVE = (OPEN, DONE, TAKEN)
CAPACITY_MIN = 64
# Flags of the data kept with the ids of a row.
PAYLOADS, RESULT = 1, 2
# Memory of a result in addition to its bytes: the object, and its place and row number in a dictionary.
RESULT_BYTES = 160
# A claim uses at most two rows: one for fresh ids, one for those it takes over.
ROWS_PER_CLAIM = 2
# `spare` is the stack of rows that were used before and are free.
_LAYOUT: dict[str, tuple[Any, int]] = {
    "token": (np.uint64, 2),
    "call": (np.uint32, 1),
    "state": (np.uint8, 1),
    "takeover": (np.uint8, 1),
    "lease_until_ms": (np.int64, 1),
    "position": (np.int64, 1),
    "named": (np.int32, 1),
    "slots": (np.int32, 1),
    "pins": (np.int32, 1),
    "remembered": (np.uint8, 1),
    "used": (np.bool_, 1),
    "spare": (np.uint32, 1),
    "claim": (np.uint64, 2),
    "digest": (np.uint64, 2),
    "lease_ms": (np.int64, 1),
    "wall_ms": (np.int64, 1),
    "ended_ms": (np.int64, 1),
    "granted": (np.int64, 1),
    "topic": (np.uint32, 1),
    "partition": (np.uint32, 1),
    "first_offset": (np.int64, 1),
    "beside": (np.uint8, 1),
    "scoped": (np.uint8, 1),
    "writer": (np.uint32, WORDS),
}
# The columns that a snapshot saves: all facts of a row, without its lease.
LASTING = (
    *("token", "call", "state", "takeover", "position", "named", "remembered", "claim", "digest", "lease_ms"),
    *("wall_ms", "granted", "topic", "partition", "first_offset"),
)


def words(raw: bytes) -> U64:
    """Returns 16 bytes as two 64-bit words, the form used in arrays."""
    return np.frombuffer(raw, np.uint64)


class Rows:
    """The rows of one shard. The kernels also read `holders`; the other columns serve completion, release, display.

    ended_ms: when the claim was completed or released, on the clock of `now_ms`.
    granted: number of ids for which the row was made.
    beside: data kept with its ids. PAYLOADS: an id came with a payload that must be recognised, so it cannot leave
    memory. RESULT: its claim was completed with a result, which is in `results`.
    writer: (n, WORDS), the writer of the claim, as in `index.writers`.
    capacity: current length of the arrays; growing is free, since their address space is reserved.
    """

    token: U64
    claim: U64
    digest: U64
    lease_ms: I64
    wall_ms: I64
    ended_ms: I64
    granted: I64
    topic: U32
    partition: U32
    first_offset: I64
    beside: U8
    scoped: U8
    writer: U32
    used: NDArray[np.bool_]
    spare: U32

    def __init__(self, row_bits: int) -> None:
        self.results = Results(self)
        self._whole = reserve(_LAYOUT, (1 << row_bits) - 1)
        self.limit = len(self._whole["used"])
        self.capacity = self.made = self._spares = 0
        # While a snapshot is made, no number is reused.
        self.only_new = False
        self.grow(0)

    @property
    def free(self) -> int:
        """Counts the rows that can still be allocated before row numbers exceed their width."""
        return (0 if self.only_new else self._spares) + self.limit - self.made

    @property
    def in_use(self) -> int:
        return self.made - self._spares

    @property
    def size_bytes(self) -> int:
        """Counts the bytes of all rows that were ever allocated."""
        row_bytes: int = sum(np.dtype(dtype).itemsize * width for dtype, width in _LAYOUT.values())
        return self.made * row_bytes

    def grow(self, to: int) -> None:
        """Extends the arrays to row `to`, or to twice their length. Rows keep their numbers and contents."""
        self.capacity = min(max(2 * self.capacity, CAPACITY_MIN, to), self.limit)
        arrays = {name: array[: self.capacity] for name, array in self._whole.items()}
        self.holders = Holders(**{name: arrays.pop(name) for name in Holders._fields})
        for name, array in arrays.items():
            setattr(self, name, array)

    def column(self, name: str) -> NDArray[Any]:
        """Returns an array by name, of all rows ever used."""
        return self._whole[name][: self.made]

    def restore(self, count: int) -> None:
        """Allocates the first `count` rows; the caller fills their columns."""
        self.made = count
        self.grow(count)
        self.column("used")[:] = True

    def take(self, position: int, grant: Grant, takeover: bool, granted: int, now_ms: int) -> int:
        """Returns a free row, filled in for `granted` ids of the grant. Nothing names it yet, and it is pinned once."""
        row = self.next_free()
        holders = self.holders
        self.used[row], holders.remembered[row] = True, grant.state != TAKEN
        self.claim[row], holders.token[row], holders.call[row] = words(grant.claim), words(grant.token), grant.call
        holders.state[row], holders.takeover[row], holders.position[row] = grant.state, takeover, position
        self.lease_ms[row], holders.lease_until_ms[row] = grant.lease_ms, now_ms + grant.lease_ms
        self.wall_ms[row], self.granted[row], self.digest[row] = grant.wall_ms, granted, words(grant.digest)
        self.ended_ms[row] = 0 if grant.state == OPEN else now_ms
        self.topic[row], self.partition[row], self.first_offset[row] = grant.topic, grant.partition, grant.first_offset
        self.beside[row], self.scoped[row] = PAYLOADS if len(grant.digests) else 0, 0
        self.writer[row] = words_of(grant.writer) if grant.writer else 0
        holders.named[row] = holders.slots[row] = 0
        holders.pins[row] = 1
        return row

    def next_free(self) -> int:
        """Allocates a free row and returns its number; the caller fills the row in."""
        if self._spares and not self.only_new:
            self._spares -= 1
            return int(self.spare[self._spares])
        self.made += 1
        if self.made > self.capacity:
            self.grow(self.made)
        return self.made - 1

    def give_back(self, rows: NDArray[Any]) -> None:
        """Frees these rows; each must occur once."""
        if self.results.by_row:
            self.results.drop(rows.tolist())
        self.holders.state[rows], self.used[rows] = UNKNOWN, False
        self.spare[self._spares : self._spares + len(rows)] = rows
        self._spares += len(rows)

    def let_go(self, rows: NDArray[Any]) -> None:
        """Frees rows that were just allocated and have no slots."""
        self.holders.pins[rows] = self.holders.remembered[rows] = 0
        self.give_back(rows)

    def give_back_idle(self, rows: Iterable[int]) -> None:
        """Frees the rows among `rows` that are no longer in use."""
        holders = self.holders
        idle = [row for row in rows if not (holders.slots[row] or holders.pins[row] or holders.remembered[row])]
        if idle:
            self.give_back(np.array(idle, np.uint32))

    def void(self, row: int) -> None:
        """Undoes the allocation of a row whose claim was not applied. Slots that name it are dead, and nothing depends
        on it.
        """
        self.holders.state[row], self.holders.position[row] = UNKNOWN, 0
        self.holders.remembered[row] = 0

    def pin(self, rows: Sequence[int]) -> None:
        """Pins rows of a change that may be undone; each must occur once."""
        pins = self.holders.pins
        for row in rows:
            pins[row] += 1

    def remembered_until_ms(self, rows: Iterable[int], known_ms: int = 0) -> int | None:
        """Returns the time until which a claim's answer is remembered for retries after a lost reply, over all its
        rows.

        That is two leases after its completion or release, or after the lease of a claim that nothing names, and at
        least `known_ms`. None while it holds ids.
        """
        holders, until_ms = self.holders, 0
        for row in rows:
            is_open = holders.state[row] == OPEN
            if is_open and holders.named[row]:
                return None
            end_ms = holders.lease_until_ms[row] if is_open else self.ended_ms[row]
            until_ms = max(until_ms, int(end_ms) + max(2 * int(self.lease_ms[row]), known_ms))
        return until_ms

    def unpin(self, rows: Sequence[int]) -> None:
        """Unpins rows whose change can no longer be undone, and frees those that are then not in use."""
        holders, pins, idle = self.holders, self.holders.pins, list[int]()
        for row in rows:
            assert pins[row] > 0, "a change is settled or undone once"
            pins[row] -= 1
            if not (pins[row] or holders.slots[row] or holders.remembered[row]):
                idle.append(row)
        if idle:
            self.give_back(np.array(idle, np.uint32))

    def reset_leases(self, now_ms: int) -> None:
        """Gives every open row a full lease. Ended claims count as ended now."""
        used = self.column("used")
        self.column("lease_until_ms")[used] = now_ms + self.column("lease_ms")[used]
        self.column("ended_ms")[used] = now_ms

    def open_total(self, rows: Sequence[int]) -> int:
        """Counts the ids that the open rows of a claim still hold."""
        holders = self.holders
        return sum(int(holders.named[row]) for row in rows if holders.state[row] == OPEN)


class Results:
    """Results of claims, by row, within a memory budget; the oldest are dropped first.

    by_row: changed only by these methods. A freed row has none.
    forgotten: number of results dropped for memory.
    """

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._most_bytes = sys.maxsize
        self.by_row: dict[int, bytes] = {}
        self.size_bytes = self.forgotten = 0

    def keep_within(self, size_bytes: int) -> None:
        """Sets the memory budget in bytes."""
        self._most_bytes = size_bytes
        self._trim()

    def put(self, rows: Iterable[int], result: bytes) -> None:
        """Stores the result of a claim for its rows, which have none."""
        for row in rows:
            self.by_row[row] = result
            self.size_bytes += RESULT_BYTES + len(result)
            self._rows.beside[row] |= RESULT
        self._trim()

    def drop(self, rows: Iterable[int]) -> None:
        """Drops the results of these rows, if any."""
        for row in rows:
            result = self.by_row.pop(row, None)
            if result is not None:
                self.size_bytes -= RESULT_BYTES + len(result)
                self._rows.beside[row] &= PAYLOADS

    def _trim(self) -> None:
        while self.size_bytes > self._most_bytes and self.by_row:
            self.drop([next(iter(self.by_row))])
            self.forgotten += 1
