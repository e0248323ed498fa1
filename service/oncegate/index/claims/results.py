"""Types of the answers of the claims index."""

from dataclasses import dataclass, field
from typing import Self

import numpy as np

from oncegate.arraytypes import I32, I64, U8, U32, U64
from oncegate.core.claims import ClaimState, IdState


@dataclass(frozen=True)
class ClaimDecision:
    """The outcome of a claim before it is applied; n elements, in the request's order.

    actions: `Action`, or SAME_INDEX.
    verdicts: wire bytes.
    numbers: of_index, of_call or lease_left_ms, for verdicts that have one.
    fresh, taken: shape (k, 2), for the entry.
    again: an id is granted again, so the claim must be renewed.
    states: the `IdState` behind each action; it gives the reason for a duplicate: done, taken, done with another
    payload.
    claim: the claim of the remembered (token, call).
    rests_on: the highest log position that a verdict other than BUSY depends on, or 0.
    digests: of the payloads of `fresh`, then of `taken`, as in the entry.
    archives: int64 (n,), the archive of each evicted id, -1 for others; None: no id was evicted.
    """

    actions: U8
    verdicts: U8
    numbers: U32
    states: U8
    fresh: U64
    taken: U64
    again: bool
    claim: bytes | None
    rests_on: int
    digests: bytes = b""
    archives: I64 | None = None


@dataclass(frozen=True, eq=False)
class Located:
    """The first occurrence of each duplicate in an answer, as far as known; n elements, in the request's order.

    For an id whose row was just written, its location.

    topic, partition, offset: where it was written. topic: number in `topics`. offset -1: unknown, or not in this
    gateway.
    result: index in `results` of its claim's result, each listed once; -1: none is known.
    """

    topic: I32
    partition: U32
    offset: I64
    result: I32
    topics: list[str] = field(default_factory=list)
    results: list[bytes] = field(default_factory=list)

    @classmethod
    def unknown(cls, ids: int) -> Self:
        """Returns an object for `ids` ids, of which nothing is known yet."""
        minus = np.full(ids, -1, np.int32)
        return cls(minus, np.zeros(ids, np.uint32), np.full(ids, -1, np.int64), minus.copy())


@dataclass(frozen=True)
class ClaimView:
    """The state of a claim. granted: number of its ids. named: those it still has, or had when it ended; the others
    were taken over.
    """

    state: ClaimState
    granted: int = 0
    named: int = 0
    token: bytes = b""
    lease_ms: int = 0
    lease_left_ms: int = 0
    position: int = 0


@dataclass(frozen=True)
class Explained:
    """The state of one id; an absent id has no holder.

    wall_ms: when it was claimed or done.
    owner: that of a taken id, which has no claim.
    written_at: topic, partition and first offset of its request's rows. For a row in another system: of the row itself,
    or None if unknown.
    digest_kept: a repeat with another payload would be recognised.
    """

    state: IdState
    claim: bytes | None = None
    token: bytes | None = None
    call: int = 0
    lease_left_ms: int = 0
    position: int = 0
    wall_ms: int = 0
    takeover: bool = False
    owner: bytes | None = None
    written_at: tuple[str, int | None, int | None] | None = None
    digest_kept: bool = False
