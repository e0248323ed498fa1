"""Lists all ids that a store knows and that nobody holds, a segment of the table at a time."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from oncegate.arraytypes import I64, U32, U64
from oncegate.index.claims.store import ClaimStore
from oncegate.index.table.arrays import TAKEN
from oncegate.index.table.rows import DONE

_LOW, _HALF = np.uint64(0xFFFF_FFFF), np.uint64(32)


class Listed(NamedTuple):
    """Holds some ids, uint64 (n, 2): tag and home. owners: uint64 (n, 2), who took each, zeros for done ids.

    digests: of payloads, uint32 (n,), 0 for none. wall_ms: when each was done or taken, int64 (n,).
    """

    ids: U64
    owners: U64
    digests: U32
    wall_ms: I64


def listed(store: ClaimStore) -> Iterator[Listed]:
    """Yields the done and taken ids in the table, by segment; nothing may be applied meanwhile."""
    slots, rows = store.table.slots, store.rows
    for base, capacity in zip(slots.base.tolist(), slots.capacity.tolist(), strict=True):
        words = slots.words[base : base + capacity]
        row = (words[:, 1] & _LOW).astype(np.int64) - 1
        state = np.where(row >= 0, rows.holders.state[np.maximum(row, 0)], 255)
        at = np.flatnonzero((state == DONE) | (state == TAKEN))
        row = row[at]
        owners = np.where((state[at] == TAKEN)[:, None], rows.holders.token[row], np.uint64(0))
        digests = slots.digests[base + at] if len(slots.digests) else np.zeros(len(at), np.uint32)
        ids = np.stack([words[at, 0], words[at, 1] >> _HALF], axis=1)
        yield Listed(ids, owners, digests, rows.wall_ms[row].astype(np.int64))
