"""Moves old ids from the table to archives: selects rows, copies their slots, and drops the slots once archived.

    pick     chooses and pins the rows whose ids were done or taken first; pinned rows do not change
    gather   copies their slots, segment by segment; changes nothing
    drop     drops the slots of ids that are in a live archive and in a run, by id rather than by row: ids that were
             not copied stay

No `Retired` may be applied between the first copy and the last drop. Otherwise an id could be retired, claimed again
and then dropped in place of the older one.
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

# Token of done ids: that of no attempt, since the attempt that completed them is known for only two leases.
NOBODY = b"\xff" * 16
NEVER_MS = (1 << 63) - 1
_HALF, _LOW = np.uint64(32), np.uint64(0xFFFF_FFFF)


@dataclass
class Picked:
    """The rows that leave the table, and the number of ids that they hold.

    is_picked: by row + 1, whether it is one.
    part_of: by row, the number of its part in `parts`.
    """

    rows: U32
    ids: int
    is_picked: U8
    part_of: I32
    parts: list[tuple[bytes, int]]


@dataclass
class Gathered:
    """Copied ids, uint64 (n, 2): the tag; and a word with the part's number above the home (the start of the hash
    chain).

    wall_ms: when each was done or taken.
    """

    ids: U64
    wall_ms: I64


def pick(store: ClaimStore, ids: int, bounds: Sequence[int]) -> Picked | None:
    """Selects and pins the oldest done and taken rows until they hold `ids` ids, or all rows if they hold fewer. None
    if there are none.

    Skips rows whose claim can still be named, rows that an ack may forget, rows with payload digests, which an archive
    does not hold, and rows that an undo may still change.

    bounds: ascending times at which ids retire. Ids done or taken on different sides of a bound get into different
    parts.
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
    """Returns the (owner, takeover) pair of each part, with a zero owner for done ids, and each row's part number."""
    rows, holders = store.rows, store.rows.holders
    taken = holders.state[chosen] == TAKEN
    of = np.zeros((len(chosen), 4), np.uint64)
    of[:, :2] = np.where(taken[:, None], holders.token[chosen], np.uint64(0))
    of[:, 2] = np.where(taken, holders.takeover[chosen], 0)
    of[:, 3] = np.searchsorted(np.array(bounds, np.int64), rows.wall_ms[chosen], side="right")
    unique, number = np.unique(of, axis=0, return_inverse=True)
    return [(part[:2].tobytes(), int(part[2])) for part in unique], number.reshape(-1).astype(np.int32)


def gather(store: ClaimStore, picked: Picked, segment: int) -> Gathered:
    """Copies one segment's slots of the selected rows. Changes nothing."""
    table, rows = store.table, store.rows
    if len(picked.is_picked) <= rows.made:
        more = np.zeros(2 * rows.made + 1 - len(picked.is_picked), np.uint8)
        picked.is_picked = np.concatenate([picked.is_picked, more])
    # One extra element: the kernel also writes ids that are not picked, and then overwrites them.
    out = np.empty((int(table.slots.used[segment]) + 1, 2), np.uint64)
    count = int(store.kernels.gather_of(table.slots, segment, rows.holders, picked.is_picked, out))
    ids = out[:count]
    of = (ids[:, 1] & _LOW).astype(np.int64) - 1
    ids[:, 1] = ids[:, 1] >> _HALF | picked.part_of[of].astype(np.uint64) << _HALF
    return Gathered(ids, rows.wall_ms[of])


def parts_of(picked: Picked, gathered: Sequence[Gathered]) -> list[tuple[Archived, U64]]:
    """Returns the gathered ids as archives: the description of each and its ids, uint64 (n, 2).

    The archive's number in the ids is 0 until it is known. The ids stay in the table's order, so `drop` passes over the
    table once.
    """
    ids = np.concatenate([np.empty((0, 2), np.uint64), *(one.ids for one in gathered)])
    wall_ms = np.concatenate([np.empty(0, np.int64), *(one.wall_ms for one in gathered)])
    number, made = (ids[:, 1] >> _HALF).astype(np.int64), []
    numbers = np.flatnonzero(np.bincount(number)).tolist()
    for part in numbers:
        # Usually all ids are of one part and need no copy.
        of_part = number == part if len(numbers) > 1 else slice(None)
        records, times = ids[of_part], wall_ms[of_part]
        records[:, 1] &= _LOW
        archived = Archived(*picked.parts[part], int(times.min()), int(times.max()), len(records))
        made.append((archived, records))
    return made


def numbered(records: U64, archive: int) -> U64:
    """Returns the ids of one archive with its number, as its bytes and its run hold them."""
    records[:, 1] |= np.uint64(archive) << _HALF
    return records


def unpin(store: ClaimStore, picked: Picked) -> None:
    """Unpins the selected rows. Rows that hold nothing any more become free."""
    freed = np.empty_like(picked.rows)
    free = store.kernels.unpin(store.rows.holders, picked.rows, freed)
    store.rows.give_back(freed[:free])


def drop(store: ClaimStore, ids: U64) -> int:
    """Empties the slots of these ids, uint64 (n, 2), if they are done or taken. Returns how many were.

    If a claim of theirs can be named, as all can after a start, it is forgotten.
    """
    rows, table = store.rows, store.table
    assert store.snapshot is None, "the snapshot would be without them, and its archives with them"
    freed, named = np.empty(len(ids), np.uint32), np.empty(len(ids), np.uint32)
    kernel = delete.COMPILED if store.kernels is COMPILED else delete.PLAIN
    count, free, claimed = kernel(table.slots, rows.holders, own(ids), table.tag_mask, freed, named)
    rows.give_back(freed[:free])
    for claim in {rows.claim[row].tobytes() for row in np.unique(named[:claimed]).tolist()}:
        store.registry.forget(claim)
    # Another id may now be in the slot of a dropped one.
    table.moves += 1
    store.ids -= int(count)
    store.evicted_ids += int(count)
    return int(count)


def stand(store: ClaimStore, number: int) -> None:
    """Allocates the shared row for all archived ids of one kind (done, or taken by one owner). number: that of the
    kind.

    Raises Overloaded if no row is free.
    """
    standing, kind = store.standing_rows, store.archives.new_kinds[number]
    if number >= len(standing) - 1:
        store.standing_rows = np.full(number + 2, -1, np.int32)
        store.standing_rows[: len(standing) - 1] = standing[:-1]
        standing = store.standing_rows
    if standing[number] >= 0:
        # No archive of this row's kind is left.
        store.rows.let_go(standing[number : number + 1].copy())
        standing[number] = -1
    standing[number] = _standing_row(store, kind)
    del store.archives.new_kinds[number]


def _standing_row(store: ClaimStore, kind: tuple[bytes, int]) -> int:
    """Returns a row without a claim or slots, which stays in use as long as its archive kind."""
    rows, (owner, takeover) = store.rows, kind
    if not rows.free:
        raise Overloaded(f"all {rows.limit} rows hold claims, and old ids need one; nothing was changed")
    state = DONE if owner == NO_CLAIM else TAKEN
    none = np.empty((0, 2), np.uint64)
    # Its number may still be listed for an earlier row; with the latest possible time it is never mistaken for that
    # row.
    grant = Grant(NO_CLAIM, NOBODY if owner == NO_CLAIM else owner, 0, NO_CLAIM, state, 0, NEVER_MS, none, none)
    row = rows.take(0, grant, bool(takeover), 0, 0)
    rows.holders.remembered[row], rows.holders.pins[row] = 1, 0
    return row
