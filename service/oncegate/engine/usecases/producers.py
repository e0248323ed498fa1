"""Registers producers; claims, renews, completes and releases their sequences. Answers wait until durable."""

import hashlib
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from oncegate.arraytypes import U32
from oncegate.core.causes import Cause
from oncegate.core.claims import SETTLE, STATE_AFTER, Effect, Verb
from oncegate.core.entries.producers import ProducerRegistered, SequencesClaimed, SequencesCompleted, SequencesReleased
from oncegate.core.errors import BadRequest, Fenced, NotFound, ReleasedClaim, TooLarge, UnknownClaim
from oncegate.core.producers import PRODUCER, REGISTER_PRODUCER, SEQUENCE_MAX, Entrance, ProducerAction, Registration
from oncegate.engine.commit.journal import Journal
from oncegate.engine.commit.proven import answers
from oncegate.engine.counters import COMPLETED, RELEASED
from oncegate.engine.deadline import Deadline
from oncegate.engine.names import check_name
from oncegate.engine.policies import shadow
from oncegate.engine.producer_requests import ProducerRequest, ProducerResult, ProducerView, SequenceSettled
from oncegate.engine.requests import ClaimResult, SequenceRequest
from oncegate.engine.usecases import producer_refusals as refusals
from oncegate.engine.usecases import source_ids
from oncegate.index.producers.decide import SequenceDecision, decide, registrant, standing
from oncegate.index.producers.intervals import count_of
from oncegate.index.producers.store import DONE_INTERVALS_MAX, ProducerState
from oncegate.index.writers import cause_between


class Producers:
    """The producers of one journal."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self._store = journal.index.producers

    @answers("register")
    async def register(self, request: ProducerRequest, deadline: Deadline) -> ProducerResult:
        """Registers a producer under this token and returns its epoch. A new token gets a new epoch, which fences older
        epochs.

        Raises ProducerBusy while another's lease is live, Fenced if a later one has registered, OtherDriver,
        SourceReplaced, TooLarge, BadRequest, LedgerFull, DeadlinePassed: nothing was changed. LedgerDown: effect
        unknown; retry.
        """
        check_name("producer", request.producer, self.journal.limits)
        check_name("driver", request.driver, self.journal.limits)
        lease_ms = self.journal.limits.lease_of(request.lease_ms)
        deadline.check()
        now_ms = self.journal.clock.monotonic_ms()
        registered = self._store.producers.get(request.producer)
        if registered is not None and registered.driver != request.driver:
            raise refusals.other_driver(registered, request.driver)
        left_ms = 0 if registered is None else registered.lease_left_ms(now_ms)
        named = source_ids.entries_of(self.journal, "", request.producer, request.source_id)
        effect = REGISTER_PRODUCER[registrant(registered, request.token, left_ms)].effect
        if effect is Registration.NEXT_EPOCH:
            self._next_epoch(request, registered, lease_ms)
        elif effect is not Registration.SAME_EPOCH:
            raise refusals.not_registered(effect, request, left_ms)
        if named:
            self.journal.group_commit.check()
            self.journal.record(named)
        producer = self._store.producers[request.producer]
        producer.lease_ms, producer.lease_until_ms = lease_ms, now_ms + lease_ms
        answer = self._answer(producer)
        position = max(producer.position, source_ids.position_of(self.journal, "", request.producer))
        await self.journal.group_commit.durable(position)
        return answer

    def _next_epoch(self, request: ProducerRequest, registered: ProducerState | None, lease_ms: int) -> None:
        journal, producers = self.journal, self._store.producers
        if registered is None and len(producers) >= journal.limits.producers:
            raise TooLarge(
                f"{len(producers)} producers in a namespace are all there may be: a producer is a partition of a source"
            )
        journal.group_commit.check()
        # Numbers count up and are never reused, since producers are never forgotten.
        number, epoch = (len(producers) + 1, 1) if registered is None else (registered.number, registered.epoch + 1)
        who, times = (request.producer, number, epoch, request.token, request.driver), (lease_ms, journal.wall_ms())
        journal.record([ProducerRegistered(*who, *times, request.gaps, request.sender.writer)])

    def _answer(self, producer: ProducerState) -> ProducerResult:
        done = producer.done()
        return ProducerResult(
            producer.number,
            producer.epoch,
            producer.lease_ms,
            producer.watermark,
            producer.claimed_to,
            self._store.resume_after(producer),
            done[-DONE_INTERVALS_MAX:],
            len(done) > DONE_INTERVALS_MAX,
        )

    def own(self, name: str, epoch: int, token: bytes) -> ProducerState:
        """Returns the producer with this epoch and token. Raises UnknownProducer, Fenced."""
        producer = self._store.producers.get(name)
        effect = PRODUCER[standing(producer, epoch, token)].effect
        if producer is None or effect is not Entrance.GO_ON:
            raise refusals.not_the_producer(effect, name, epoch, producer)
        return producer

    @answers("claim_sequences", shadow.granted)
    async def claim(self, request: SequenceRequest, deadline: Deadline) -> ClaimResult:
        """Decides which sequences may be written: returns one verdict for each, in order. The claim is named by
        (producer, epoch, call).

        Raises UnknownProducer, Fenced, Gap, OutOfOrder, TokenReused, TooLarge, BadRequest, Overloaded, LedgerFull,
        DeadlinePassed: nothing was written. LedgerDown: effect unknown; retry the same call.
        """
        self.journal.rates.take_ids(len(request.sequences), request.sender.tenant)
        deadline.check()
        producer, decision, digest = self.decide(request, b"")
        lease_ms = producer.lease_ms if request.lease_ms is None else self.journal.limits.lease_of(request.lease_ms)
        if len(decision.fresh) or len(decision.taken):
            self.journal.group_commit.check()
            self.journal.record([self.claimed(request, producer, decision, digest, lease_ms)])
        else:
            producer.quiet_call = max(producer.quiet_call, request.call)
            producer.lease_ms, producer.lease_until_ms = lease_ms, self.journal.clock.monotonic_ms() + lease_ms
        await self.journal.group_commit.durable(producer.position)
        self.count(request, producer, decision)
        return ClaimResult(None, lease_ms, decision.verdicts, decision.numbers)

    def decide(
        self, request: SequenceRequest, person: bytes, digests: U32 | None = None
    ) -> tuple[ProducerState, SequenceDecision, bytes]:
        """Decides on each sequence, without effect; returns the producer, the decision, and the digest of the request.

        digests: of the payloads, uint32[n]; None: the request has none.

        Raises the error that refuses the whole request.
        """
        self._check(request)
        try:
            producer = self.own(request.producer, request.epoch, request.token)
        except Fenced:
            self.journal.counts.add_cause(Cause.ZOMBIE, len(request.sequences), request.sender.client)
            raise
        asked = request.sequences.tobytes() if digests is None else request.sequences.tobytes() + digests.tobytes()
        digest = hashlib.blake2b(asked, digest_size=16, person=person).digest()
        sequences, prev = request.sequences, request.prev_sequence
        decision = decide(self._store, producer, request.call, digest, sequences, prev, digests)
        if decision.gap:
            raise refusals.gap(request, producer)
        if decision.out_of_order is not None:
            raise refusals.out_of_order(decision.out_of_order, producer)
        spans = len(producer.intervals) + len(decision.fresh) + len(decision.taken)
        if spans > self.journal.limits.intervals:
            raise refusals.too_scattered(producer, spans, self.journal.limits.intervals)
        kept_max = self.journal.limits.sequence_digests
        granted = count_of(decision.fresh) + count_of(decision.taken)
        if digests is not None and granted and self._store.digests + granted > kept_max:
            raise refusals.too_many_digests(request.producer, self._store.digests, kept_max)
        return producer, decision, digest

    def _check(self, request: SequenceRequest) -> None:
        limits, sequences = self.journal.limits, request.sequences
        if len(sequences) > limits.ids_per_request:
            raise TooLarge(f"{len(sequences)} sequences in one request; at most {limits.ids_per_request}")
        if len(sequences) > 1 and not bool((sequences[1:] > sequences[:-1]).all()):
            at = int(np.flatnonzero(sequences[1:] <= sequences[:-1])[0])
            raise BadRequest(
                f"sequence {sequences[at + 1]} follows {sequences[at]}: they are named in the order of the source, "
                "each greater than the one before; nothing was written"
            )
        if len(sequences) and int(sequences[-1]) > SEQUENCE_MAX:
            raise BadRequest(f"sequence {sequences[-1]}: the highest is {SEQUENCE_MAX}; nothing was written")
        if request.prev_sequence is not None and len(sequences) and request.prev_sequence >= int(sequences[0]):
            raise BadRequest(
                f"prev_sequence {request.prev_sequence} does not lie before the first sequence, {sequences[0]}; "
                "nothing was written"
            )
        if request.lease_ms is not None:
            self.journal.limits.lease_of(request.lease_ms)

    def claimed(
        self,
        request: SequenceRequest,
        producer: ProducerState,
        decision: SequenceDecision,
        digest: bytes,
        lease_ms: int,
        digests: U32 | None = None,
    ) -> SequencesClaimed:
        """Returns the entry that records the granted sequences; `digests` are those of the request, as in `decide`."""
        spans, wall_ms, kept = (_raw(decision.fresh), _raw(decision.taken)), self.journal.wall_ms(), b""
        if digests is not None:
            chosen = (
                digests[decision.actions == action] for action in (ProducerAction.GRANT, ProducerAction.TAKE_OVER)
            )
            kept = b"".join(one.astype("<u4").tobytes() for one in chosen)
        return SequencesClaimed(producer.number, producer.epoch, request.call, digest, lease_ms, wall_ms, *spans, kept)

    def written(
        self,
        request: SequenceRequest,
        producer: ProducerState,
        decision: SequenceDecision,
        digest: bytes,
        written_before: int,
        digests: U32 | None = None,
    ) -> list[SequencesClaimed | SequencesCompleted]:
        """Returns the entries for sequences that are granted and written together: claim and completion in one append.

        `written_before`: as in the entry.
        """
        lease_ms = producer.lease_ms if request.lease_ms is None else request.lease_ms
        claimed = self.claimed(request, producer, decision, digest, lease_ms, digests)
        claimed = replace(claimed, written_before=written_before)
        return [claimed, SequencesCompleted(producer.number, producer.epoch, request.call, claimed.wall_ms)]

    def count(self, request: SequenceRequest, producer: ProducerState, decision: SequenceDecision) -> None:
        """Adds the verdicts of one request to the counters.

        No entry records which epoch wrote a sequence: the writer before the current one is taken for that of older
        epochs.
        """
        writer, runs = request.sender.writer or producer.writer, self.journal.index.claims.runs
        cause = cause_between(writer, producer.writer_before, runs)
        cause = Cause.TASK_RETRY if cause is Cause.UNKNOWN else cause
        self.journal.counts.add_sequences(decision.actions, decision.verdicts, cause, request.sender.client)

    @answers("settle_sequences", shadow.settled_sequences)
    async def settle(
        self, verb: Verb, name: str, epoch: int, token: bytes, call: int, deadline: Deadline
    ) -> SequenceSettled:
        """Renews, completes or releases everything that a call was granted.

        Raises UnknownProducer, Fenced, UnknownClaim, ReleasedClaim: nothing was changed. LedgerFull, DeadlinePassed:
        nothing was written. LedgerDown: effect unknown; retry.
        """
        deadline.check()
        producer = self.own(name, epoch, token)
        effect = SETTLE[verb, producer.call_state(call)].effect
        if effect is Effect.REFUSE_UNKNOWN:
            raise UnknownClaim(f"nothing is known of call {call} of this epoch: nothing was granted to it, or long ago")
        if effect is Effect.REFUSE_RELEASED:
            raise ReleasedClaim(f"call {call} of producer {name} was released; its sequences may be another call's")
        lease_ms = 0
        if effect is Effect.EXTEND:
            lease_ms = producer.lease_ms
            producer.lease_until_ms = self.journal.clock.monotonic_ms() + lease_ms
        elif effect is not Effect.NOTHING:
            self.journal.group_commit.check(ends=True)
            entry = SequencesCompleted if effect is Effect.MARK_DONE else SequencesReleased
            self.journal.counts.add(COMPLETED if effect is Effect.MARK_DONE else RELEASED)
            self.journal.record([entry(producer.number, epoch, call, self.journal.wall_ms())])
        known = producer.calls[call]
        state, granted = STATE_AFTER.get(effect, known.state), known.granted
        await self.journal.group_commit.durable(known.position)
        return SequenceSettled(call, state, granted, lease_ms)

    @answers("close_producer")
    async def close(self, name: str, epoch: int, token: bytes) -> None:
        """Ends the producer's lease now, so that the next attempt need not wait. In memory only: after a restart the
        lease runs in full.

        Raises UnknownProducer, Fenced: nothing was changed.
        """
        self.own(name, epoch, token).lease_until_ms = self.journal.clock.monotonic_ms()

    @answers("explain_producer")
    async def explain(self, name: str) -> ProducerView:
        """Returns the state of a producer, once that state is durable. Raises NotFound."""
        producer = self._store.producers.get(name)
        if producer is None:
            raise NotFound(f"there is no producer {name}: registering makes it")
        view = ProducerView(
            producer=producer.name,
            producer_id=producer.number,
            driver=producer.driver,
            epoch=producer.epoch,
            token=producer.token,
            lease_ms=producer.lease_ms,
            lease_left_ms=producer.lease_left_ms(self.journal.clock.monotonic_ms()),
            watermark=producer.watermark,
            claimed_to=producer.claimed_to,
            resume_after=self._store.resume_after(producer),
            done=producer.done(),
            open=self._store.unfinished(producer),
            position=producer.position,
        )
        await self.journal.group_commit.durable(view.position)
        return view


def _raw(spans: NDArray[np.uint64]) -> bytes:
    return spans.astype("<u8").tobytes()
