"""Looks up claims by id and ids by fingerprint in a store of claims, renews leases, and lists all done ids."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from oncegate.arraytypes import I64, U32, U64
from oncegate.core.claims import ClaimState, IdState
from oncegate.index.claims.decide import as_wide_as
from oncegate.index.claims.results import ClaimView, Explained
from oncegate.index.claims.store import ClaimStore
from oncegate.index.table.arrays import TAKEN
from oncegate.index.table.grants import NO_CLAIM, NO_TOPIC, first_offset_of
from oncegate.index.table.rows import DONE, LIVE, OPEN, words


def renew(store: ClaimStore, claim: bytes, now_ms: int) -> None:
    """Restarts a claim's lease, even after it expired. Raises KeyError if the claim is unknown."""
    record = store.registry.get(claim, now_ms)
    if record is None:
        raise KeyError(claim.hex())
    rows = list(record.rows)
    store.rows.holders.lease_until_ms[rows] = now_ms + store.rows.lease_ms[rows]


def view_of(store: ClaimStore, claim: bytes, now_ms: int) -> ClaimView:
    """Returns the state of a claim. UNKNOWN: it was never granted, or ended long ago."""
    record = store.registry.get(claim, now_ms)
    if record is None:
        return ClaimView(ClaimState.UNKNOWN)
    rows, holders, last = store.rows, store.rows.holders, record.rows[-1]
    return ClaimView(
        ClaimState(int(holders.state[last])),
        granted=int(rows.granted[list(record.rows)].sum()),
        named=int(holders.named[list(record.rows)].sum()),
        token=record.token,
        lease_ms=int(rows.lease_ms[last]),
        lease_left_ms=_lease_left_ms(store, last, now_ms),
        position=int(holders.position[list(record.rows)].max()),
    )


def result_of(store: ClaimStore, claim: bytes) -> bytes | None:
    """Returns the result that a claim was completed with; None if it has none, or the claim is no longer known."""
    results = store.rows.results.by_row
    record = store.registry.at_any_age(claim) if results else None
    return None if record is None else next((results[row] for row in record.rows if row in results), None)


def explain(store: ClaimStore, fingerprint: bytes, now_ms: int) -> Explained:
    """Returns the state of one id. For an archived id that is the completion time of its archive, without a claim.

    Raises Recovering if a run of archived ids is damaged and may hold this one.
    """
    row = store.table.row_of(words(fingerprint))
    rows, holders = store.rows, store.rows.holders
    if row is None or holders.state[row] not in LIVE:
        return _explain_cold(store, fingerprint, 0 if row is None else int(holders.position[row]))
    state, position = holders.state[row], int(holders.position[row])
    left_ms = _lease_left_ms(store, row, now_ms)
    open_state = IdState.CLAIMED_LIVE if left_ms else IdState.CLAIMED_OVER
    wall_ms, takeover, holder = int(rows.wall_ms[row]), bool(holders.takeover[row]), holders.token[row].tobytes()
    if state == TAKEN:
        return Explained(IdState.TAKEN, position=position, wall_ms=wall_ms, takeover=takeover, owner=holder)
    if state == DONE and not rows.claim[row].any():
        return Explained(IdState.DONE, position=position, wall_ms=wall_ms)
    return Explained(
        IdState.DONE if state == DONE else open_state,
        rows.claim[row].tobytes(),
        holder,
        int(holders.call[row]),
        left_ms,
        position,
        wall_ms,
        takeover,
        written_at=_written_at(store, row),
        digest_kept=store.table.digest_of(words(fingerprint)) != 0,
    )


def _explain_cold(store: ClaimStore, fingerprint: bytes, position: int) -> Explained:
    """Returns the state of an id that has no slot. position: of the entry that removed it; its archive may have been
    retired later.
    """
    position = max(position, store.archives.position)
    archives = store.cold.find(as_wide_as(store, words(fingerprint).reshape(1, 2)))
    if archives is None:
        return Explained(IdState.ABSENT, position=position)
    archive = store.archives.by_number[int(archives[0])]
    owner = archive.owner if archive.owner != NO_CLAIM else None
    state, takeover = IdState.DONE if owner is None else IdState.TAKEN, bool(archive.takeover)
    return Explained(state, position=position, wall_ms=archive.newest_wall_ms, takeover=takeover, owner=owner)


def _written_at(store: ClaimStore, row: int) -> tuple[str, int, int] | None:
    rows, topic = store.rows, int(store.rows.topic[row])
    if topic == NO_TOPIC:
        return None
    return store.topics[topic], int(rows.partition[row]), first_offset_of(int(rows.first_offset[row]))


def _lease_left_ms(store: ClaimStore, row: int, now_ms: int) -> int:
    holders = store.rows.holders
    is_open = holders.state[row] == OPEN
    return max(0, int(holders.lease_until_ms[row]) - now_ms) if is_open else 0


_LOW, _HALF = np.uint64(0xFFFF_FFFF), np.uint64(32)


class Listed(NamedTuple):
    """A list of n ids.

    ids: uint64 (n, 2), tag and home.
    owners: uint64 (n, 2), the owner that took each; zeros for done ids.
    digests: of payloads, uint32 (n,); 0: none.
    wall_ms: when each was done or taken, int64 (n,).
    """

    ids: U64
    owners: U64
    digests: U32
    wall_ms: I64


def listed(store: ClaimStore) -> Iterator[Listed]:
    """Yields the done and taken ids in the table, one segment at a time. Nothing may be applied meanwhile."""
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
