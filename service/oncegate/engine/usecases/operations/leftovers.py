"""Clears ids and sequences that a dead task left claimed; the ledger records who decided about them and why.

A claim is cleared whole, as it would be settled. Any part of a producer may be cleared, but an open call only whole.
"""

from collections.abc import Iterator

import numpy as np

from oncegate.arraytypes import U64
from oncegate.core.acks import RESOLVE, Leftover, LeftoverOutcome, Resolution
from oncegate.core.claims import SETTLE, ClaimState, Effect, Verb
from oncegate.core.entries.kinds import Completed, Entry, Released
from oncegate.core.entries.producers import Resolved
from oncegate.core.errors import BadRequest, LeaseLive, ReleasedClaim, UnknownClaim, UnknownProducer
from oncegate.engine.commit.journal import Journal
from oncegate.engine.commit.proven import answers
from oncegate.engine.deadline import Deadline
from oncegate.engine.names import check_name
from oncegate.engine.producer_requests import ResolveRequest
from oncegate.index.claims.lookup import view_of
from oncegate.index.producers.apply import held_calls
from oncegate.index.producers.intervals import count_of
from oncegate.index.producers.store import FREE, GIVEN, HELD, LEFT, TAKEN, ProducerState
from oncegate.index.table.grants import NO_CLAIM


class Leftovers:
    """The leftover claims and sequences of one journal."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal

    @answers("resolve_claim")
    async def of_claim(self, claim: bytes, request: ResolveRequest, deadline: Deadline) -> int:
        """Completes or releases a claim whose lease has expired or whose holder is gone; returns its number of ids.

        Returns 0 if the claim was already settled in this way.

        Raises LeaseLive, UnknownClaim, ReleasedClaim, BadRequest, TooLarge, LedgerFull, DeadlinePassed: nothing was
        changed. LedgerDown: effect unknown; retry.
        """
        finding = self._checked(request, deadline)
        view = view_of(self.journal.index.claims, claim, self.journal.clock.monotonic_ms())
        is_live = view.state is ClaimState.OPEN and view.lease_left_ms > 0
        leftover = (Leftover.GONE if request.holder_gone else Leftover.LIVE) if is_live else Leftover.OVER
        if RESOLVE[leftover, finding].effect is Resolution.REFUSE_LIVE:
            raise LeaseLive(
                f"the claim is held for {view.lease_left_ms} ms more, unless it is renewed: its holder may be writing "
                "its ids; nothing was changed",
                lease_left_ms=view.lease_left_ms,
            )
        effect = SETTLE[Verb.COMPLETE if request.is_done else Verb.RELEASE, view.state].effect
        if effect is Effect.REFUSE_UNKNOWN:
            raise UnknownClaim("nothing is known of this claim: it was never granted here, or settled long ago")
        if effect is Effect.REFUSE_RELEASED:
            raise ReleasedClaim("this claim was released; its ids may be another's by now")
        if effect is Effect.NOTHING:
            await self.journal.group_commit.durable(view.position)
            return 0
        settled, wall_ms = Completed if effect is Effect.MARK_DONE else Released, self.journal.wall_ms()
        said = request.is_done, request.who, request.why
        note = Resolved(0, claim, *said, b"", wall_ms, request.verb, view.named)
        await self._record(request, [settled(claim, wall_ms), note], claim=claim, ids=view.named)
        return view.named

    @answers("resolve_producer")
    async def of_producer(
        self, name: str, span: tuple[int | None, int | None], request: ResolveRequest, deadline: Deadline
    ) -> int:
        """Clears a producer's sequences that are claimed and not done; returns their number.

        span: first and last sequence, both inclusive; None: no limit.

        Raises LeaseLive, UnknownProducer, BadRequest, TooLarge, LedgerFull, DeadlinePassed: nothing was changed.
        LedgerDown: effect unknown; retry.
        """
        finding = self._checked(request, deadline)
        first, last = span
        if first is not None and last is not None and first > last:
            raise BadRequest(f"first {first} lies after last {last}: that is nothing to clear; nothing was changed")
        producer = self.journal.index.producers.producers.get(name)
        if producer is None:
            raise UnknownProducer(f"there is no producer {name}; nothing was changed")
        spans = np.array(list(self._spans(producer, span, finding)), np.uint64).reshape(-1, 2)
        self._check_calls(producer, spans)
        if not len(spans):
            await self.journal.group_commit.durable(producer.position)
            return 0
        count, raw = count_of(spans), spans.astype("<u8").tobytes()
        wall_ms = self.journal.wall_ms()
        said = request.is_done, request.who, request.why
        entry = Resolved(producer.number, NO_CLAIM, *said, raw, wall_ms, producer=name)
        await self._record(request, [entry], producer=name, sequences=count)
        return count

    def _checked(self, request: ResolveRequest, deadline: Deadline) -> LeftoverOutcome:
        check_name("who", request.who, self.journal.limits)
        check_name("why", request.why, self.journal.limits)
        deadline.check()
        return LeftoverOutcome.DONE if request.is_done else LeftoverOutcome.NOT_DONE

    async def _record(self, request: ResolveRequest, entries: list[Entry], **told: object) -> None:
        journal = self.journal
        journal.group_commit.check()
        await journal.group_commit.durable(journal.record(entries))
        said = {"done": request.is_done, "verb": request.verb or "resolve", "who": request.who, "why": request.why}
        journal.observer.event("resolved", namespace=journal.namespace, **said, **told)

    def _spans(
        self, producer: ProducerState, span: tuple[int | None, int | None], finding: LeftoverOutcome
    ) -> Iterator[tuple[int, int]]:
        """Yields the intervals of sequences to change, restricted to the span. Raises LeaseLive."""
        lease_left_ms = producer.lease_left_ms(self.journal.clock.monotonic_ms())
        low, high = 0 if span[0] is None else span[0], producer.claimed_to or 0
        high = high if span[1] is None else min(span[1], high)
        held = producer.intervals
        kinds = (held.label >> np.uint64(32)).tolist()
        for first, last, kind in zip(held.first.tolist(), held.last.tolist(), kinds, strict=True):
            effect = RESOLVE[_leftover(kind, lease_left_ms), finding].effect
            if last < low or first > high or effect is Resolution.NOTHING:
                continue
            if effect is Resolution.REFUSE_LIVE:
                raise LeaseLive(
                    f"sequences {first} to {last} of producer {producer.name} are held for {lease_left_ms} ms more, "
                    "unless the lease is renewed: its holder may be writing them; nothing was changed",
                    lease_left_ms=lease_left_ms,
                )
            if effect is not Resolution.GIVE_UP or kind != GIVEN:
                yield max(first, low), min(last, high)

    def _check_calls(self, producer: ProducerState, spans: U64) -> None:
        """Raises BadRequest if a producer's call would be cleared only in part, since a call has a single outcome."""
        for call, held in held_calls(producer, spans).items():
            first, last = int(held[0, 0]), int(held[-1, 1])
            if first < int(spans[0, 0]) or last > int(spans[-1, 1]):
                raise BadRequest(
                    f"call {call} of producer {producer.name} holds sequences from {first} to {last}: clear all of "
                    "them, or register the producer and claim them anew; nothing was changed"
                )


def _leftover(kind: int, lease_left_ms: int) -> Leftover:
    if kind in (HELD, TAKEN):
        return Leftover.LIVE if lease_left_ms > 0 else Leftover.OVER
    if kind == LEFT:
        return Leftover.OVER
    return Leftover.FREE if kind in (FREE, GIVEN) else Leftover.OTHER
