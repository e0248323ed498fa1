"""Defines a grant: the common form in which claims, produced rows and taken ids are applied."""

from dataclasses import dataclass, field

import numpy as np

from oncegate.arraytypes import U32, U64
from oncegate.core.claims import ClaimState
from oncegate.core.entries.kinds import Claimed, Produced, Taken
from oncegate.index.table.arrays import NO_DIGESTS, TAKEN

NO_CLAIM = bytes(16)
NO_TOPIC = 0xFFFF_FFFF
# How long a repeat of a produce is distinguished from a new request with the same token and call.
REPEATS_KNOWN_MS = 30_000


# Not frozen: that would cost two microseconds per claim.
@dataclass(slots=True)
class Grant:
    """The ids that one entry grants to one holder: `fresh` and `taken`, shape (n, 2), as rows in `state`.

    claim: zeros for an owner's ids, which have no claim.
    lease_ms: while OPEN; else how long a repeat is known.
    topic, partition, first_offset: where the rows were written. topic: the index's own number; NO_TOPIC: none.
    digests: of the payloads of the fresh, then of the taken ids, 0 for none; empty: none has one.
    taken_at: indexes of the taken ids among the rows written; empty: all ids are taken, none is, or it is unknown.
    writer: bytes of `core.writers`; empty: unknown.
    """

    claim: bytes
    token: bytes
    call: int
    digest: bytes
    state: int
    lease_ms: int
    wall_ms: int
    fresh: U64
    taken: U64
    topic: int = NO_TOPIC
    partition: int = 0
    first_offset: int = 0
    digests: U32 = field(default_factory=lambda: NO_DIGESTS)
    taken_at: U32 = field(default_factory=lambda: NO_DIGESTS)
    writer: bytes = b""

    @property
    def known(self) -> bool:
        """Returns whether the grant has a claim id or a call by which a later request can refer to it."""
        return self.state != TAKEN


def grant_of(entry: Claimed | Produced | Taken, topic: int = NO_TOPIC) -> Grant:
    """Returns the entry as a grant. topic: number of a produced entry's topic.

    Raises ValueError if the entry has digests, or indexes of taken ids, but not one for each of them.
    """
    fresh = np.frombuffer(entry.fresh, np.uint64).reshape(-1, 2)
    taken = np.frombuffer(entry.taken, np.uint64).reshape(-1, 2)
    if isinstance(entry, Taken):
        return Grant(NO_CLAIM, entry.owner, 0, NO_CLAIM, TAKEN, 0, entry.wall_ms, fresh, taken, writer=entry.writer)
    state = int(ClaimState.DONE if isinstance(entry, Produced) else ClaimState.OPEN)
    lease_ms = REPEATS_KNOWN_MS if isinstance(entry, Produced) else entry.lease_ms
    digests = np.frombuffer(entry.digests, np.uint32)
    if len(digests) not in (0, len(fresh) + len(taken)):
        raise ValueError(f"{len(digests)} payload digests for {len(fresh) + len(taken)} ids")
    common = (entry.claim, entry.token, entry.call, entry.digest, state, lease_ms, entry.wall_ms, fresh, taken)
    if isinstance(entry, Produced):
        taken_at = np.frombuffer(entry.taken_at, np.uint32)
        if len(taken_at) not in (0, len(taken)):
            raise ValueError(f"{len(taken_at)} indexes for {len(taken)} taken ids")
        return Grant(*common, topic, entry.partition, entry.first_offset, digests, taken_at, entry.writer)
    return Grant(*common, digests=digests, taken_at=NO_DIGESTS, writer=entry.writer)


def first_offset_of(kept: int) -> int:
    """Returns the offset in a row's `first_offset`.

    A negative value encodes its entry's first offset: the order of its fresh and taken ids is unknown.
    """
    return kept if kept >= 0 else -1 - kept
