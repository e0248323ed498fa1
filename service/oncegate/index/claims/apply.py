"""Applies ledger entries to the store of claims, and undoes them: the only way in which live entries change the store.

`apply` returns an undo record. Pass it to `settle` once the entry is durable, or to `undo` if the ledger rejected the
entry; undo the newest first. Until then the rows it names are pinned, so they are not reused.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from oncegate.arraytypes import I64, U8, U32, U64
from oncegate.core.entries.kinds import Claimed, Completed, Entry, Evicted, Produced, Released, Retired, Staged, Taken
from oncegate.core.entries.producers import Acked, ProducerRegistered, Scoped
from oncegate.index.claims.by_name import ClaimRecord
from oncegate.index.claims.store import ClaimStore
from oncegate.index.table.arrays import NO_ROW, TAKEN
from oncegate.index.table.grants import NO_CLAIM, NO_TOPIC, Grant, grant_of
from oncegate.index.table.rows import DONE, LIVE, OPEN, RELEASED

_NEVER_MS = 2**63 - 1
# The previous row of a slot that is new.
_NEW = b"\xff\xff\xff\xff"


@dataclass
class ClaimUndo:
    """The data needed to undo one entry, and the rows that stay pinned until the entry is durable or undone.

    counters: `ClaimStore.counters` before the entry.
    registered: the previous records of the claim's name and call.
    puts: for each row granted: its number, its ids, the rows that their slots named, how many ids were absent, their
    digests.
    settled: for each row completed or released: its number, and its previous state, named, position, wall_ms and
    ended_ms.
    retired: rows that were retired, with their previous states and positions.
    scopes: undoes the entry's effect on batch scopes.
    archives: two callables, which undo and settle the entry's effect on archives.
    """

    counters: tuple[int, int, int]
    claim: bytes
    registered: tuple[ClaimRecord | None, bytes | None] | None = None
    puts: list[tuple[int, U64, U32, int, U32]] = field(default_factory=list)
    settled: list[tuple[int, int, int, int, int, int]] = field(default_factory=list)
    retired: tuple[U32, U8, I64] | None = None
    scopes: Callable[[], None] | None = None
    archives: tuple[Callable[[], None], Callable[[], None]] | None = None
    pinned: tuple[int, ...] | U32 = ()


def apply(store: ClaimStore, position: int, entry: Entry, now_ms: int) -> ClaimUndo | None:
    """Applies one entry and returns its undo record, or None if the entry concerns no ids.

    Raises Overloaded, before any effect, only where `ClaimStore.make_room` would.
    """
    if isinstance(entry, Claimed | Taken):
        return _grant(store, position, grant_of(entry), now_ms)
    if isinstance(entry, Produced) and (entry.fresh or entry.taken):
        return _grant(store, position, grant_of(entry, store.topic_number(entry.topic)), now_ms)
    if isinstance(entry, Completed | Released):
        return _settle_claim(store, position, entry, DONE if isinstance(entry, Completed) else RELEASED, now_ms)
    if isinstance(entry, Scoped):
        return _scope(store, entry)
    if isinstance(entry, Acked):
        return _forget_acked(store, position, entry)
    if isinstance(entry, Retired):
        return _archive(store, position, entry, _retire(store, position, entry))
    if isinstance(entry, Evicted):
        return _archive(store, position, entry, ClaimUndo(store.counters(), NO_CLAIM))
    if isinstance(entry, Staged | ProducerRegistered):
        store.runs.note(entry.writer)
    return None


def undo(store: ClaimStore, change: ClaimUndo) -> None:
    """Undoes an entry that the ledger rejected; entries must be undone newest first. Slots of the table may have moved
    since.
    """
    if change.archives is not None:
        change.archives[0]()
    store.end_snapshot()
    rows, holders = store.rows, store.rows.holders
    for row, state, named, position, wall_ms, ended_ms in reversed(change.settled):
        _set_state(store, row, state)
        holders.named[row], holders.position[row] = named, position
        rows.wall_ms[row], rows.ended_ms[row] = wall_ms, ended_ms
        rows.results.drop([row])
    if change.retired is not None:
        due, states, positions = change.retired
        holders.state[due], holders.position[due] = states, positions
        store.table.dead -= int(holders.slots[due].sum())
        # Rows of an acked batch as well: a later retirement, or a search for the oldest row, may have removed them.
        store.expiry.add_all(due)
    if change.scopes is not None:
        change.scopes()
    for row, ids, previous, was_absent, digests in reversed(change.puts):
        rows.void(row)
        store.table.put_back(ids, row, previous, was_absent, digests)
    if change.registered is not None:
        store.registry.put_back(change.claim, change.registered)
    store.takeovers, store.open_claims, ids_ever = change.counters
    # Ids may have moved to archives since, which no undo reverts.
    store.ids = ids_ever - store.evicted_ids
    _unpin(store, change)


def settle(store: ClaimStore, change: ClaimUndo) -> None:
    """Discards the undo record: the entry is durable."""
    if change.archives is not None:
        change.archives[1]()
    _unpin(store, change)


def _unpin(store: ClaimStore, change: ClaimUndo) -> None:
    if isinstance(change.pinned, tuple):
        store.rows.unpin(change.pinned)
        return
    freed = np.empty_like(change.pinned)
    free = store.kernels.unpin(store.rows.holders, change.pinned, freed)
    store.rows.give_back(freed[:free])


def _grant(store: ClaimStore, position: int, grant: Grant, now_ms: int) -> ClaimUndo:
    rows, table, registry = store.rows, store.table, store.registry
    fresh, taken, is_known = len(grant.fresh), len(grant.taken), grant.state != TAKEN
    given: list[tuple[U64, U32, bool]] = []
    if fresh:
        given.append((own(grant.fresh), grant.digests[:fresh], False))
    if taken:
        given.append((own(grant.taken), grant.digests[fresh:], True))
    store.make_room(fresh + taken, now_ms, digests=len(grant.digests) > 0)
    table.make_room_for([part[0] for part in given])
    change = ClaimUndo(store.counters(), grant.claim)
    old = registry.at_any_age(grant.claim) if is_known else None
    was_open, granted = old is not None and rows.open_total(old.rows) > 0, tuple[int, ...]()
    for ids, digests, takeover in given:
        row = rows.take(position, grant, takeover, len(ids), now_ms)
        previous, was_absent, digests_before = table.put(ids, row, digests)
        change.puts.append((row, ids, previous, was_absent, digests_before))
        granted += (row,)
        store.ids += was_absent
        if grant.state != OPEN:
            store.expiry.add(row)
        if len(given) > 1 and grant.topic != NO_TOPIC:
            rows.first_offset[row] = _first_offset(grant, takeover)
    losers = _losers(change, granted)
    rows.pin(losers)
    change.pinned, store.last_granted = (*granted, *losers), granted
    if is_known:
        record = ClaimRecord(grant.token, grant.call, grant.digest, granted if old is None else old.rows + granted)
        change.registered = registry.put(grant.claim, record)
        if grant.state != OPEN:
            registry.is_ending(grant.claim)
    store.takeovers += taken
    store.open_claims += grant.state == OPEN and not was_open and bool(granted)
    if losers:
        store.open_claims -= emptied(store, losers)
    store.wall_ms = max(store.wall_ms, grant.wall_ms)
    if grant.writer:
        store.runs.note(grant.writer)
    return change


def _first_offset(grant: Grant, takeover: bool) -> int:
    """Returns the offset of the first fresh or taken id, where both kinds were written in one range.

    If the order is unknown, returns -1 minus the first offset of the range.
    """
    taken_at = grant.taken_at
    if not len(taken_at):
        return -1 - grant.first_offset
    if takeover:
        return grant.first_offset + int(taken_at[0])
    # Fresh ids before the first taken one are at their own index.
    return grant.first_offset + int(np.count_nonzero(taken_at == np.arange(len(taken_at))))


def own(ids: NDArray[np.uint64]) -> U64:
    """Returns the ids C-contiguous and writeable: numba compiles a separate kernel for any other layout."""
    return ids if ids.flags.c_contiguous and ids.flags.writeable else ids.copy()


def _losers(change: ClaimUndo, granted: tuple[int, ...]) -> list[int]:
    """Returns the rows to which the slots pointed before, each once; omits granted rows, which are already pinned."""
    losers: set[int] = set()
    for _, ids, previous, was_absent, _ in change.puts:
        # Only new slots: one comparison of bytes; comparing arrays costs more than a small claim.
        if was_absent == len(ids) and previous.tobytes() == _NEW * len(ids):
            continue
        named = previous[previous != NO_ROW]
        if len(named):
            losers.update(np.unique(named).tolist())
    return sorted(losers.difference(granted))


def emptied(store: ClaimStore, losers: list[int]) -> int:
    """Returns how many open claims have just lost their last id, and queues each of them to be forgotten.

    losers: numbers of the rows that lost ids.
    """
    rows, registry = store.rows, store.registry
    state = rows.holders.state
    claims = {rows.claim[row].tobytes() for row in losers if state[row] == OPEN}
    records = [(claim, registry.at_any_age(claim)) for claim in claims]
    empty = [claim for claim, record in records if record is not None and rows.open_total(record.rows) == 0]
    for claim in empty:
        registry.is_ending(claim)
    return len(empty)


def _settle_claim(store: ClaimStore, position: int, entry: Completed | Released, state: int, now_ms: int) -> ClaimUndo:
    """Completes or releases a claim. No effect if it is forgotten: a replay that is short of rows may forget it
    early."""
    change = ClaimUndo(store.counters(), entry.claim)
    record = store.registry.at_any_age(entry.claim)
    if record is None:
        return change
    rows, holders = store.rows, store.rows.holders
    was_open = rows.open_total(record.rows) > 0
    for row in record.rows:
        before = (holders.state[row], holders.named[row], holders.position[row])
        change.settled.append((row, *before, rows.wall_ms[row], rows.ended_ms[row]))
        _set_state(store, row, state)
        holders.position[row], rows.wall_ms[row], rows.ended_ms[row] = position, entry.wall_ms, now_ms
        if state == DONE:
            store.expiry.add(row)
    if isinstance(entry, Completed) and entry.result:
        rows.results.put(record.rows, entry.result)
    store.registry.is_ending(entry.claim)
    store.open_claims -= was_open
    store.wall_ms = max(store.wall_ms, entry.wall_ms)
    change.pinned = record.rows
    rows.pin(record.rows)
    return change


def _set_state(store: ClaimStore, row: int, state: int) -> None:
    """Changes a row's state. When a row dies, `named` keeps the number of ids that it had."""
    holders = store.rows.holders
    was_live, is_live = (value in LIVE for value in (holders.state[row], state))
    holders.state[row] = state
    if was_live and not is_live:
        store.ids -= int(holders.named[row])
        store.table.dead += int(holders.slots[row])
    elif is_live and not was_live:
        holders.named[row] = holders.slots[row]
        store.ids += int(holders.named[row])
        store.table.dead -= int(holders.slots[row])


def _retire(store: ClaimStore, position: int, entry: Retired) -> ClaimUndo:
    """Retires everything done or taken before the entry's time. The slots are dead until they are swept."""
    return _let_go(store, position, store.expiry.take_before(entry.before_wall_ms), entry.before_wall_ms)


def _archive(store: ClaimStore, position: int, entry: Evicted | Retired, change: ClaimUndo) -> ClaimUndo:
    """Applies the entry to the archive index; its effect on the table is applied separately."""
    archives = store.archives
    change.archives = archives.apply(position, entry), lambda: archives.settle(entry)
    store.wall_ms = max(store.wall_ms, entry.wall_ms)
    return change


def _scope(store: ClaimStore, entry: Scoped) -> ClaimUndo:
    """Adds the rows of a claim, or of the previous entry, to the scope of the claim's batch."""
    record = store.registry.at_any_age(entry.claim)
    rows = store.last_granted if entry.claim == NO_CLAIM else record.rows if record is not None else ()
    return ClaimUndo(store.counters(), NO_CLAIM, scopes=store.scopes.add(entry.driver, entry.batch, rows))


def _forget_acked(store: ClaimStore, position: int, entry: Acked) -> ClaimUndo:
    """Retires the done ids of acked batches; later claims in these batches are answered STALE."""
    held_back = np.frombuffer(entry.held_back, "<u8").tolist()
    rows, scopes = store.scopes.acked(entry.driver, entry.batches, held_back)
    change = _let_go(store, position, rows, _NEVER_MS)
    change.scopes = scopes
    store.wall_ms = max(store.wall_ms, entry.wall_ms)
    return change


def _let_go(store: ClaimStore, position: int, listed: U32, before_ms: int) -> ClaimUndo:
    """Retires the rows among `rows` that were done or taken before `before_ms`."""
    rows = store.rows
    due, states = np.empty_like(listed), np.empty(len(listed), np.uint8)
    positions = np.empty(len(listed), np.int64)
    count, ids, slots = store.kernels.retire(
        rows.holders, rows.wall_ms, listed, before_ms, position, due, states, positions
    )
    change = ClaimUndo(store.counters(), NO_CLAIM, pinned=due[:count])
    change.retired = (due[:count], states[:count], positions[:count])
    store.ids -= int(ids)
    store.table.dead += int(slots)
    return change
