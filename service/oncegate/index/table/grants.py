"""Says what an entry gives to a holder of ids: the one form in which claims, produced rows and taken ids are
applied."""

from dataclasses import dataclass, field

import numpy as np

from oncegate.arraytypes import U32, U64
from oncegate.core.claims import ClaimState
from oncegate.core.entries.kinds import Claimed, Produced, Taken
from oncegate.index.table.arrays import NO_DIGESTS, TAKEN

NO_CLAIM = bytes(16)
NO_TOPIC = 0xFFFF_FFFF
# How long a repeat of a produced request is told from a new one with the same token and call.
REPEATS_KNOWN_MS = 30_000


# Not frozen, which would cost two microseconds a claim.
@dataclass(slots=True)
class Grant:
    """Says what one entry gives to one holder: `fresh` and `taken` ids, shape (n, 2), as rows in `state`.

    claim: zeros for an owner's ids, which nobody settles. lease_ms: while OPEN; else how long a repeat is known.
    topic (a number of the index's own, NO_TOPIC for none), partition, first_offset: where the rows were written.
    digests: of the payloads of the fresh, then of the taken ids, 0 for none; no elements: none has one.
    taken_at: where the taken ids stand among the rows written; no elements: there are no others, or it is not known.
    writer: bytes of `core.writers`; empty: it is not known.
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
        """Tells whether it has a claim that can be named, or a call that can be repeated."""
        return self.state != TAKEN


def grant_of(entry: Claimed | Produced | Taken, topic: int = NO_TOPIC) -> Grant:
    """Returns the entry as a grant; `topic`: the number of a produced entry's topic.

    Raises ValueError: the entry has digests, or places of taken ids, and not one for each of them.
    """
    fresh = np.frombuffer(entry.fresh, np.uint64).reshape(-1, 2)
    taken = np.frombuffer(entry.taken, np.uint64).reshape(-1, 2)
    if isinstance(entry, Taken):
        return Grant(NO_CLAIM, entry.owner, 0, NO_CLAIM, TAKEN, 0, entry.wall_ms, fresh, taken, writer=entry.writer)
    state = int(ClaimState.DONE if isinstance(entry, Produced) else ClaimState.OPEN)
    lease_ms = REPEATS_KNOWN_MS if isinstance(entry, Produced) else entry.lease_ms
    digests = np.frombuffer(entry.digests, np.uint32)
    if len(digests) not in (0, len(fresh) + len(taken)):
        raise ValueError(f"{len(digests)} digests of the payloads of {len(fresh) + len(taken)} ids")
    common = (entry.claim, entry.token, entry.call, entry.digest, state, lease_ms, entry.wall_ms, fresh, taken)
    if isinstance(entry, Produced):
        taken_at = np.frombuffer(entry.taken_at, np.uint32)
        if len(taken_at) not in (0, len(taken)):
            raise ValueError(f"{len(taken_at)} places of {len(taken)} taken ids")
        return Grant(*common, topic, entry.partition, entry.first_offset, digests, taken_at, entry.writer)
    return Grant(*common, digests=digests, taken_at=NO_DIGESTS, writer=entry.writer)


def first_offset_of(kept: int) -> int:
    """Returns the offset that a row keeps of what it was written with: where it is below zero, of its entry's first
    row, for the order of fresh and taken ids in it is not known."""
    return kept if kept >= 0 else -1 - kept
