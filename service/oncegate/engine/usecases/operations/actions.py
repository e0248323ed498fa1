"""Forgets ids, fences producers and records other actions of operators: each is recorded with its author and reason in
the same append."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from oncegate.core.claims import Action
from oncegate.core.entries.kinds import Claimed, Entry, Released, SetForgotten
from oncegate.core.entries.producers import ProducerRegistered
from oncegate.core.errors import BadRequest, LeaseLive, Overloaded, TooLarge, UnknownProducer
from oncegate.core.operator_actions import FORGET, Forgetting
from oncegate.engine.commit.journal import Journal
from oncegate.engine.commit.proven import answers
from oncegate.engine.deadline import Deadline
from oncegate.engine.names import check_length
from oncegate.engine.producer_requests import Note
from oncegate.engine.quotas import Tenant
from oncegate.engine.usecases.operations.trail import Done, Trail
from oncegate.hashing.payloads import digest_of_ids
from oncegate.index.audit_trail import AuditRecord
from oncegate.index.claims.decide import decide_look_up
from oncegate.index.claims.results import ClaimDecision

__all__ = ["Actions", "AuditRecord"]


class Actions:
    """The actions of operators on one journal. A refused action leaves nothing in the ledger."""

    def __init__(self, journal: Journal, evicting: Callable[[], bool]) -> None:
        self.journal, self._trail = journal, Trail(journal)
        # Returns whether an eviction of ids from memory is running.
        self._evicting = evicting

    @answers("forget")
    async def forget(
        self, ids: NDArray[np.uint64], id_set: str, note: Note, deadline: Deadline, tenant: Tenant | None = None
    ) -> int:
        """Forgets ids, uint64 (n, 2), that are done or taken, so that the next caller is granted them. Returns how
        many.

        tenant: whose quotas count the ids; None: no one's.

        Raises LeaseLive, BadRequest: a claim holds one, or it has been evicted from memory; Overloaded: an eviction is
        running; TooLarge, LedgerFull, DeadlinePassed: nothing was forgotten. LedgerDown: effect unknown; retry.
        """
        self._trail.check(note, deadline)
        self.journal.rates.take_ids(len(ids), tenant)
        journal, claims = self.journal, self.journal.index.claims
        if len(ids) > journal.limits.ids_per_request:
            raise TooLarge(f"{len(ids)} ids in one request; at most {journal.limits.ids_per_request}")
        unique = np.ascontiguousarray(np.unique(ids, axis=0))
        decision = decide_look_up(claims, unique, journal.clock.monotonic_ms())
        known = unique[self._known(decision)]
        if not len(known):
            await journal.group_commit.durable(journal.group_commit.next_position - 1)
            return 0
        if self._evicting():
            raise Overloaded("ids are leaving memory at this moment: ask again; nothing was forgotten")
        journal.group_commit.check()
        wall_ms, claim = journal.wall_ms(), journal.random(16)
        # A claim takes the ids and is released: an id's state is that of the claim which its slot names.
        call = claim, journal.random(16), 0, digest_of_ids(known), journal.limits.lease_ms_min, wall_ms
        entries: list[Entry] = [Claimed(*call, known.tobytes(), b"", b"", id_set), Released(claim, wall_ms)]
        done = Done("forget", f"ids of set {id_set!r}", len(known), note)
        await self._trail.durable(self._trail.submit(done, entries), done)
        return done.count

    def _known(self, decision: ClaimDecision) -> NDArray[np.bool_]:
        """Returns a mask of the ids to forget, bool[n]. Raises LeaseLive, BadRequest if one of them must not be."""
        effects = [FORGET[Action(action)].effect for action in decision.actions.tolist()]
        if held := effects.count(Forgetting.REFUSE_LIVE):
            raise LeaseLive(
                f"{held} of these ids are held by live claims, whose holders may be writing them: wait, or release the "
                "claims; nothing was forgotten",
                lease_left_ms=int(decision.numbers.max()),
            )
        if left := effects.count(Forgetting.REFUSE_LEFT):
            raise BadRequest(
                f"{left} of these ids are held by claims whose lease is over: say whether they were written (resolve); "
                "nothing was forgotten"
            )
        if decision.archives is not None and (cold := int(np.count_nonzero(decision.archives >= 0))):
            raise BadRequest(
                f"{cold} of these ids have left memory (`hot_ids` newer ones are known), and only the horizon forgets "
                "those; nothing was forgotten"
            )
        return np.array([effect is Forgetting.FORGET for effect in effects], np.bool_)

    @answers("forget_all")
    async def forget_all(self, id_set: str, confirm: str, token: bytes, note: Note, deadline: Deadline) -> int:
        """Forgets every id of a dedup scope, including those evicted from memory, so that the next caller is granted
        them.

        Returns how often the scope has been forgotten. A repeat under the same `token` has no effect. Open claims stay
        valid, and the ids that they complete are forgotten too. The ids keep their space until their retention ends.

        Raises BadRequest: `confirm` is not the scope's name; TooLarge, LedgerFull, DeadlinePassed: nothing was
        forgotten. LedgerDown: effect unknown; retry with the same token.
        """
        if confirm != id_set:
            raise BadRequest(f"confirm is {confirm[:80]!r}, not the set's name {id_set[:80]!r}; nothing was forgotten")
        check_length("id_set", id_set, self.journal.limits)
        self._trail.check(note, deadline)
        journal, id_sets = self.journal, self.journal.index.id_sets
        if id_sets.forgotten_by(id_set) == token:
            await journal.group_commit.all_durable()
            return id_sets.generation(id_set)
        journal.group_commit.check()
        done = Done("forget --all", f"ids of set {id_set!r}", 0, note)
        position = self._trail.submit(done, [SetForgotten(id_set, token, journal.wall_ms())])
        times = id_sets.generation(id_set)
        await self._trail.durable(position, done)
        return times

    @answers("fence")
    async def fence(self, name: str, note: Note, deadline: Deadline) -> int:
        """Begins a producer's next epoch without a holder and returns it; the current holder is fenced, even with a
        live lease.

        Raises UnknownProducer, BadRequest, TooLarge, LedgerFull, DeadlinePassed: nothing was changed. LedgerDown:
        effect unknown; retry.
        """
        self._trail.check(note, deadline)
        journal = self.journal
        producer = journal.index.producers.producers.get(name)
        if producer is None:
            raise UnknownProducer(f"there is no producer {name}; nothing was changed")
        journal.group_commit.check()
        epoch, wall_ms = producer.epoch + 1, journal.wall_ms()
        who = name, producer.number, epoch, journal.random(16), producer.driver
        entry = ProducerRegistered(*who, journal.limits.lease_ms_min, wall_ms, producer.gaps)
        done = Done("fence", f"producer {name}", epoch, note)
        position = self._trail.submit(done, [entry])
        # No one holds the epoch, so its lease ends at once.
        journal.index.producers.producers[name].lease_until_ms = journal.clock.monotonic_ms()
        await self._trail.durable(position, done)
        return epoch

    @answers("note")
    async def note(self, action: str, subject: str, count: int, note: Note, deadline: Deadline) -> None:
        """Records an action that adds no other entries, even while the disk is full.

        Raises BadRequest, TooLarge, LedgerFull, DeadlinePassed: nothing was recorded. LedgerDown: effect unknown.
        """
        self._trail.check(note, deadline)
        self.journal.group_commit.check(ends=True)
        done = Done(action, subject, count, note)
        await self._trail.durable(self._trail.submit(done, ()), done)

    async def trail(self, before: int | None, count: int) -> list[AuditRecord]:
        """Returns up to `count` actions before a position, newest first, once they are durable. before: None: from
        the newest."""
        found = self.journal.index.audit_trail.before(before, count)
        await self.journal.group_commit.durable(found[0].position if found else 0)
        return found
