"""Imports the ids recorded in another ledger that uses the same hashing key: done ids as done, taken ids as their
owner's."""

from dataclasses import dataclass

import numpy as np

from oncegate.arraytypes import U8, U32, U64
from oncegate.core.claims import Action
from oncegate.core.entries.kinds import Claimed, Completed, Entry, Taken
from oncegate.core.errors import BadRequest, LeaseLive, TooLarge
from oncegate.core.operator_actions import IMPORT, Importing
from oncegate.engine.commit.journal import Journal
from oncegate.engine.commit.proven import answers
from oncegate.engine.deadline import Deadline
from oncegate.engine.producer_requests import Note
from oncegate.engine.quotas import Tenant
from oncegate.engine.usecases.operations.trail import Done, Trail
from oncegate.hashing.payloads import digest_of_ids
from oncegate.index.claims.decide import decide_look_up, decide_take
from oncegate.index.table.grants import NO_CLAIM


@dataclass(frozen=True, eq=False)
class KnownIds:
    """Ids recorded in a ledger that uses the same hashing key, uint64 (n, 2).

    owners: uint64 (n, 2), who took each; zeros: it is done.
    digests: of payloads, uint32 (n,); 0: none.
    """

    ids: U64
    owners: U64
    digests: U32


class Carrying:
    """Imports ids into one journal; each request takes effect whole or not at all."""

    def __init__(self, journal: Journal) -> None:
        self.journal, self._trail = journal, Trail(journal)

    @answers("take_in")
    async def take_in(self, known: KnownIds, note: Note, deadline: Deadline, tenant: Tenant | None = None) -> int:
        """Imports ids recorded in another ledger; returns the number of ids that were new. Idempotent.

        tenant: whose quotas count the ids; None: no one's.

        Raises LeaseLive, BadRequest: a claim holds one, or another owner has it; TooLarge, QuotaExceeded, LedgerFull,
        DeadlinePassed: nothing was changed. LedgerDown: effect unknown; retry.
        """
        journal, limits = self.journal, self.journal.limits
        self._trail.check(note, deadline)
        if len(known.ids) > limits.ids_per_request:
            raise TooLarge(f"{len(known.ids)} ids in one request; at most {limits.ids_per_request}")
        self.journal.rates.take_ids(len(known.ids), tenant)
        both = np.unique(np.concatenate([known.ids, known.owners], axis=1), axis=0)
        if len(both) > len(np.unique(both[:, :2], axis=0)):
            raise BadRequest("one id is there twice, done and taken, or with two owners; nothing was imported")
        parts = [self._new(known, owner) for owner in np.unique(known.owners, axis=0)]
        parts = [part for part in parts if len(part.ids)]
        if not parts:
            await journal.group_commit.durable(journal.group_commit.next_position - 1)
            return 0
        journal.group_commit.check()
        count, has_digests = sum(len(part.ids) for part in parts), any(part.digests.any() for part in parts)
        journal.index.claims.make_room(count, journal.clock.monotonic_ms(), entries=len(parts), digests=has_digests)
        entries = [entry for part in parts for entry in self._entries(part)]
        done = Done("import", "", count, note)
        await self._trail.durable(self._trail.submit(done, entries), done)
        return count

    def _new(self, known: KnownIds, owner: U64) -> KnownIds:
        """Returns, without duplicates, the given owner's ids that this namespace does not know yet. Raises LeaseLive,
        BadRequest."""
        its = np.flatnonzero((known.owners == owner).all(axis=1))
        ids, first = np.unique(known.ids[its], axis=0, return_index=True)
        ids = np.ascontiguousarray(ids)
        store, now_ms, is_taken = self.journal.index.claims, self.journal.clock.monotonic_ms(), bool(owner.any())
        decision = decide_take(store, owner.tobytes(), ids, now_ms) if is_taken else decide_look_up(store, ids, now_ms)
        is_new = _added(decision.actions, is_taken)
        return KnownIds(ids[is_new], known.owners[its][first][is_new], known.digests[its][first][is_new])

    def _entries(self, part: KnownIds) -> list[Entry]:
        journal, wall_ms, ids = self.journal, self.journal.wall_ms(), part.ids.tobytes()
        owner = part.owners[0].tobytes()
        if owner != NO_CLAIM:
            return [Taken(owner, wall_ms, ids, b"")]
        claim, digests = journal.random(16), part.digests.tobytes() if part.digests.any() else b""
        call = claim, journal.random(16), 0, digest_of_ids(part.ids), journal.limits.lease_ms_min, wall_ms
        return [Claimed(*call, ids, b"", digests), Completed(claim, wall_ms)]


def _added(actions: U8, is_taken: bool) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    effects = [IMPORT[Action(action), is_taken].effect for action in actions.tolist()]
    if held := effects.count(Importing.REFUSE_HELD):
        raise LeaseLive(
            f"{held} of these ids are held by claims here, whose holders may be writing them: resolve those first; "
            "nothing was imported"
        )
    if others := effects.count(Importing.REFUSE_OTHER):
        raise BadRequest(
            f"{others} of these ids belong to an owner there, and are written or another's here; nothing was imported"
        )
    return np.array([effect is Importing.ADD for effect in effects], np.bool_)
