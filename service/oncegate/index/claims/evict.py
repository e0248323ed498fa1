"""Moves old ids out of the table into archives: chosen by rows, copied, and dropped once they stand elsewhere.

    pick     the rows whose ids were done or taken first; they are pinned, so that they stay what they are meanwhile
    gather   copies of their slots, segment by segment; nothing changes
    drop     the slots of ids that lie in a live archive and in a run, by id and not by row: what was not copied stays

Between the first copy and the last drop no `Retired` may be applied, or an id could be let go of, claimed anew and
dropped for the older one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from oncegate.arraytypes import I32, I64, U8, U32, U64
from oncegate.core.entries.kinds import Archived
from oncegate.core.errors import Overloaded
from oncegate.index.claims.apply import own
from oncegate.index.claims.store import ClaimStore
from oncegate.index.table import delete
from oncegate.index.table.arrays import TAKEN
from oncegate.index.table.grants import NO_CLAIM, Grant
from oncegate.index.table.kernels import COMPILED
from oncegate.index.table.rows import DONE, PAYLOADS

# The token of ids that are done: no attempt's, for who did them is known for two leases only.
NOBODY = b"\xff" * 16
NEVER_MS = (1 << 63) - 1
_HALF, _LOW = np.uint64(32), np.uint64(0xFFFF_FFFF)


@dataclass
class Picked:
    """Names the rows that are to leave: `rows`, and how many `ids` they hold.

    is_picked: by row + 1, whether it is one. part_of: by row, the number of its part in `parts`.
    """

    rows: U32
    ids: int
    is_picked: U8
    part_of: I32
    parts: list[tuple[bytes, int]]


@dataclass
class Gathered:
    """Holds copied ids, uint64 (n, 2): the tag; the home below the number of the part.

    wall_ms: when each was settled.
    """

    ids: U64
    wall_ms: I64


def pick(store: ClaimStore, ids: int, bounds: Sequence[int]) -> Picked | None:
    """Picks the oldest done and taken rows that together hold `ids` ids, or what there is; pinned until `unpin`.

    Left out is what a claim can still be named of, what an ack may let go of, what has digests of payloads, which an
    archive does not hold, and what may yet be taken back. `bounds`, ascending: ids that will retire apart, since one of
    these lies between the times when they were settled, get into different parts.
    """
    rows, holders = store.rows, store.rows.holders
    listings: list[U32] = []
    count = 0
    for listed in store.expiry.listed():
        listed = np.unique(listed)
        is_done = (holders.state[listed] == DONE) | (holders.state[listed] == TAKEN)
        is_idle = (holders.remembered[listed] == 0) & (holders.pins[listed] == 0) & (holders.named[listed] > 0)
        is_plain = (rows.beside[listed] & PAYLOADS == 0) & (rows.scoped[listed] == 0)
        listed = listed[is_done & is_idle & is_plain]
        upto = int(np.searchsorted(np.cumsum(holders.named[listed]), ids - count)) + 1
        listings.append(listed[:upto])
        count += int(holders.named[listed[:upto]].sum())
        if count >= ids:
            break
    chosen = np.unique(np.concatenate([np.empty(0, np.uint32), *listings]))
    if not len(chosen):
        return None
    holders.pins[chosen] += 1
    is_picked, part_of = np.zeros(rows.made + 1, np.uint8), np.zeros(rows.made, np.int32)
    is_picked[chosen.astype(np.int64) + 1] = 1
    parts, part_of[chosen] = _parts(store, chosen, bounds)
    return Picked(chosen, int(holders.named[chosen].sum()), is_picked, part_of, parts)


def _parts(store: ClaimStore, chosen: U32, bounds: Sequence[int]) -> tuple[list[tuple[bytes, int]], I32]:
    """Returns (owner, takeover) of each part, zeros for done ids, and the number of each row's."""
    rows, holders = store.rows, store.rows.holders
    taken = holders.state[chosen] == TAKEN
    of = np.zeros((len(chosen), 4), np.uint64)
    of[:, :2] = np.where(taken[:, None], holders.token[chosen], np.uint64(0))
    of[:, 2] = np.where(taken, holders.takeover[chosen], 0)
    of[:, 3] = np.searchsorted(np.array(bounds, np.int64), rows.wall_ms[chosen], side="right")
    unique, number = np.unique(of, axis=0, return_inverse=True)
    return [(part[:2].tobytes(), int(part[2])) for part in unique], number.reshape(-1).astype(np.int32)


def gather(store: ClaimStore, picked: Picked, segment: int) -> Gathered:
    """Copies the picked rows' slots in one segment, as they stand now; nothing changes."""
    table, rows = store.table, store.rows
    if len(picked.is_picked) <= rows.made:
        more = np.zeros(2 * rows.made + 1 - len(picked.is_picked), np.uint8)
        picked.is_picked = np.concatenate([picked.is_picked, more])
    # One more than there can be: what is not picked is written too, and then written over.
    out = np.empty((int(table.slots.used[segment]) + 1, 2), np.uint64)
    count = int(store.kernels.gather_of(table.slots, segment, rows.holders, picked.is_picked, out))
    ids = out[:count]
    of = (ids[:, 1] & _LOW).astype(np.int64) - 1
    ids[:, 1] = ids[:, 1] >> _HALF | picked.part_of[of].astype(np.uint64) << _HALF
    return Gathered(ids, rows.wall_ms[of])


def parts_of(picked: Picked, gathered: Sequence[Gathered]) -> list[tuple[Archived, U64]]:
    """Returns what was gathered as archives: of each its description and its ids, uint64 (n, 2).

    A 0 stands where the archive's number will be. They stay in the order of the table, which `drop` then goes through
    from one end to the other.
    """
    ids = np.concatenate([np.empty((0, 2), np.uint64), *(one.ids for one in gathered)])
    wall_ms = np.concatenate([np.empty(0, np.int64), *(one.wall_ms for one in gathered)])
    number, made = (ids[:, 1] >> _HALF).astype(np.int64), []
    numbers = np.flatnonzero(np.bincount(number)).tolist()
    for part in numbers:
        # Most often all are of one part, and need not be copied.
        of_part = number == part if len(numbers) > 1 else slice(None)
        records, times = ids[of_part], wall_ms[of_part]
        records[:, 1] &= _LOW
        archived = Archived(*picked.parts[part], int(times.min()), int(times.max()), len(records))
        made.append((archived, records))
    return made


def numbered(records: U64, archive: int) -> U64:
    """Returns the ids of one archive as its bytes hold them and a run takes them."""
    records[:, 1] |= np.uint64(archive) << _HALF
    return records


def unpin(store: ClaimStore, picked: Picked) -> None:
    """Lets the picked rows change again; those that hold nothing any more are free."""
    freed = np.empty_like(picked.rows)
    free = store.kernels.unpin(store.rows.holders, picked.rows, freed)
    store.rows.give_back(freed[:free])


def drop(store: ClaimStore, ids: U64) -> int:
    """Empties the slots of these ids, uint64 (n, 2), as far as they are done or taken; returns how many that were.

    A claim of theirs that can be named, as after a start, where all can, is forgotten, as it was when they were picked.
    """
    rows, table = store.rows, store.table
    assert store.snapshot is None, "the snapshot would be without them, and its archives with them"
    freed, named = np.empty(len(ids), np.uint32), np.empty(len(ids), np.uint32)
    kernel = delete.COMPILED if store.kernels is COMPILED else delete.PLAIN
    count, free, claimed = kernel(table.slots, rows.holders, own(ids), table.tag_mask, freed, named)
    rows.give_back(freed[:free])
    for claim in {rows.claim[row].tobytes() for row in np.unique(named[:claimed]).tolist()}:
        store.registry.forget(claim)
    # Where an id was found, another may stand by now.
    table.moves += 1
    store.ids -= int(count)
    store.evicted_ids += int(count)
    return int(count)


def stand(store: ClaimStore, number: int) -> None:
    """Makes the row that stands for all ids of a new kind that left memory, by the kind's number.

    Raises Overloaded: no row is free.
    """
    standing, kind = store.standing_rows, store.archives.new_kinds[number]
    if number >= len(standing) - 1:
        store.standing_rows = np.full(number + 2, -1, np.int32)
        store.standing_rows[: len(standing) - 1] = standing[:-1]
        standing = store.standing_rows
    if standing[number] >= 0:
        # Of a kind of which nothing is left.
        store.rows.let_go(standing[number : number + 1].copy())
        standing[number] = -1
    standing[number] = _standing_row(store, kind)
    del store.archives.new_kinds[number]


def _standing_row(store: ClaimStore, kind: tuple[bytes, int]) -> int:
    """A row of no claim, which no slot names and which is not free before its kind is."""
    rows, (owner, takeover) = store.rows, kind
    if not rows.free:
        raise Overloaded(f"all {rows.limit} rows hold claims, and old ids need one; nothing was changed")
    state = DONE if owner == NO_CLAIM else TAKEN
    none = np.empty((0, 2), np.uint64)
    # Its number may be listed as that of a row that was settled once; so late, it is never taken for that one.
    grant = Grant(NO_CLAIM, NOBODY if owner == NO_CLAIM else owner, 0, NO_CLAIM, state, 0, NEVER_MS, none, none)
    row = rows.take(0, grant, bool(takeover), 0, 0)
    rows.holders.remembered[row], rows.holders.pins[row] = 1, 0
    return row
