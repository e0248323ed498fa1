"""Describes what the index of claims answers."""

from dataclasses import dataclass, field
from typing import Self

import numpy as np

from oncegate.arraytypes import I32, I64, U8, U32, U64
from oncegate.core.claims import ClaimState, IdState


@dataclass(frozen=True)
class ClaimDecision:
    """Says what `apply` of a claim would mean; n elements, in the order asked.

    actions: `Action`, or SAME_INDEX. verdicts: wire bytes. numbers: of_index, of_call or lease_left_ms where the
    verdict has one. fresh, taken: shape (k, 2), for the entry. again: an id is granted again, so renew the claim.
    states: the `IdState` that led to each action: it tells why an id is a duplicate (done, taken, done with another
    payload). claim: of the remembered (token, call). rests_on: the highest position a verdict other than BUSY rests
    on, or 0.
    digests: of the payloads of `fresh`, then of `taken`, as the entry has them. archives: int64 (n,), of the ids that
    left memory, -1 for others; None: none did.
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
    """Says of each id of an answer that is a duplicate what is known of its first; n elements, in the order asked.

    Of an id whose row was written now it says where that lies.

    topic: its number in `topics`, partition and offset: where it was written; offset -1: not known, or nowhere here.
    result: which of `results` its claim was completed with, each there once; -1: none is known.
    """

    topic: I32
    partition: U32
    offset: I64
    result: I32
    topics: list[str] = field(default_factory=list)
    results: list[bytes] = field(default_factory=list)

    @classmethod
    def unknown(cls, ids: int) -> Self:
        """Says that nothing is known of so many ids."""
        minus = np.full(ids, -1, np.int32)
        return cls(minus, np.zeros(ids, np.uint32), np.full(ids, -1, np.int64), minus.copy())


@dataclass(frozen=True)
class ClaimView:
    """Describes a claim: `granted` ids, of which `named` still are the claim's (or were when it was settled): the rest
    was taken over."""

    state: ClaimState
    granted: int = 0
    named: int = 0
    token: bytes = b""
    lease_ms: int = 0
    lease_left_ms: int = 0
    position: int = 0


@dataclass(frozen=True)
class Explained:
    """Says what is known about one id; an absent one has no holder. `wall_ms`: when it was claimed or done.

    owner: of a taken id, which has no claim. written_at: topic, partition and first offset of what it was written with;
    of a row elsewhere its own, None where that is not known.
    digest_kept: its payload would be known again.
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
