"""Appends rows to topics, with ids or sequences (each row takes effect once) or without (`plain`, at least once)."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from oncegate.arraytypes import U8, U64
from oncegate.core.claims import Action
from oncegate.core.entries.kinds import Entry, IdentifiedBy, Produced, Span
from oncegate.core.errors import BadRequest
from oncegate.core.producers import ProducerAction as SequenceAction
from oncegate.engine.commit import origins
from oncegate.engine.commit.journal import Journal
from oncegate.engine.commit.places import UNASKED_MS, Places, place
from oncegate.engine.commit.proven import answers
from oncegate.engine.counters import PRODUCED_ROWS
from oncegate.engine.deadline import Deadline
from oncegate.engine.names import chosen, cut_name, produced
from oncegate.engine.policies import shadow
from oncegate.engine.requests import ProduceRequest, ProduceResult, SequenceRequest
from oncegate.engine.usecases.batch_scopes import is_over, scoped, stale
from oncegate.engine.usecases.claim_batching import duplicates_in
from oncegate.engine.usecases.partitioning import Share, partition_of, shares, shares_aside
from oncegate.engine.usecases.producers import Producers
from oncegate.engine.usecases.topics import Topics, identify_topics
from oncegate.engine.write_log import PlainWriteWarnings
from oncegate.index.claims.decide import decide
from oncegate.index.claims.firsts import Firsts, firsts_of, positions_of, written_by
from oncegate.index.claims.lookup import view_of
from oncegate.index.claims.results import ClaimDecision
from oncegate.index.table.arrays import NO_DIGESTS
from oncegate.ports import Origin, OutputChange, RowPlaces, RowRange, SendReport, WriteRange

_NO_DIGEST = bytes(16)


@dataclass(slots=True)
class _Placed:
    """The locations of the rows of one partition share; None until they are durable, if the topic is external.
    row_indices: as in `Share`."""

    row_indices: NDArray[np.int64]
    places: RowPlaces | None = None


class Records:
    """Appends rows to the topics of one journal."""

    def __init__(self, journal: Journal, topics: Topics, producers: Producers, places: Places) -> None:
        self.journal = journal
        self._places = places
        self._topics = topics
        self._index = journal.index
        self._producers = producers
        self._warnings = PlainWriteWarnings(journal)

    @answers("produce", shadow.produced)
    async def produce(self, request: ProduceRequest, deadline: Deadline) -> ProduceResult:
        """Appends rows to a topic. With ids, claim, rows and completion are one append; rows not GRANTED are left out.

        A repeat with ids writes the rows that are still free. The rest is answered DUPLICATE (own), with the offsets of
        the earlier write. A repeat without ids writes all rows again.

        Raises SchemaMismatch, NotFound, TooLarge, TokenReused, Overloaded, LedgerFull, DeadlinePassed and, with
        sequences, as `Producers.claim`: nothing was written. LedgerDown: effect unknown; retry with the same token and
        call.
        """
        self.journal.rates.take_ids(request.rows.rows, request.sender.tenant)
        if request.locate and request.ids is None:
            raise BadRequest("locate names the first of an id, and these rows have none; nothing was written")
        if self._topics.are_elsewhere:
            origin = self._origin(request)
            identified = request.ids is not None or request.sequenced is not None
            fitted, topic_ids = await self._topics.fitted(
                request.topic, request.rows, request.keys, request.beside, origin, identified
            )
            request = replace(request, rows=fitted, topic_ids=topic_ids)
        if request.sequenced is not None:
            return await self._sequenced(request, request.sequenced, deadline)
        if request.ids is None:
            return await self._plain(request, deadline)
        return await self._by_id(request, request.ids, deadline)

    async def _by_id(self, request: ProduceRequest, ids: U64, deadline: Deadline) -> ProduceResult:
        """Appends the rows whose ids are free; claim, rows and completion are one entry. ids: of the request."""
        deadline.check()
        if request.scope is not None and await is_over(self.journal, request.scope):
            return ProduceResult(0, (), *stale(self.journal, len(ids)))
        entries, digest = self._topics.creation(request.topic, request.rows.schema), _digest(request)
        id_set = chosen(request.id_set, produced(request.topic), self.journal.limits)
        met = identify_topics(self.journal, IdentifiedBy.IDS, id_set, request.topic_ids)
        now_ms = self.journal.clock.monotonic_ms()
        decision = self._decide(request, ids, digest, now_ms)
        wall_ms, seen_max = self.journal.wall_ms(), self.journal.counts.seen_max
        duplicates = duplicates_in(self._index.claims, request, decision, wall_ms, seen_max)
        rests_on, before = self._earlier_tries(decision, now_ms)
        earlier_at = [] if decision.claim is None else positions_of(self._index.claims, decision.claim)
        firsts = self._firsts(ids, decision.verdicts) if request.locate else None
        written: list[_Placed] = []
        others = self._others(decision)
        if len(decision.fresh) or len(decision.taken) or others.any():
            rests_on, written = self._write(request, decision, digest, [*entries, *met], before, others)
        else:
            rests_on = max(rests_on, self._topic_alone(request, entries, met))
        await self.journal.group_commit.durable(rests_on)
        self.journal.counts.add_ids(decision.actions, decision.verdicts, duplicates, request.sender.client)
        rows = _count(written)
        self.journal.counts.add(PRODUCED_ROWS, rows)
        earlier = await self._earlier_ranges(request, before, earlier_at, deadline)
        located = None if firsts is None else await self._places.located(firsts, deadline)
        for placed in written:
            if located is not None and placed.places is not None:
                place(located, placed.row_indices, placed.places, np.arange(len(placed.row_indices)))
        return ProduceResult(rows, _ranges(written), decision.verdicts, decision.numbers, earlier, located)

    async def _earlier_ranges(
        self, request: ProduceRequest, before: tuple[Span, ...], positions: Sequence[int], deadline: Deadline
    ) -> tuple[RowRange, ...]:
        """Returns the ranges that earlier attempts of this call wrote: read from the entries at `positions` if the
        topic is external, otherwise `before`."""
        if not self._places.elsewhere:
            return tuple(RowRange(request.topic, span.partition, span.first_offset, span.rows) for span in before)
        return await self._places.ranges(positions, deadline if request.locate else deadline.at_most(UNASKED_MS))

    def _decide(self, request: ProduceRequest, ids: U64, digest: bytes, now_ms: int) -> ClaimDecision:
        digests = NO_DIGESTS if request.digests is None else request.digests
        times = self.journal.times(request.made_ms)
        return decide(self._index.claims, request.token, request.call, digest, ids, now_ms, "produce", digests, times)

    def _earlier_tries(self, decision: ClaimDecision, now_ms: int) -> tuple[int, tuple[Span, ...]]:
        """Returns the position that the answer depends on, and the spans that earlier attempts of this call wrote."""
        if decision.claim is None:
            return decision.rests_on, ()
        claims = self._index.claims
        position = view_of(claims, decision.claim, now_ms).position
        return max(decision.rests_on, position), written_by(claims, decision.claim)

    def _firsts(self, ids: U64, verdicts: U8) -> Firsts:
        entries_max = self.journal.limits.located_entries
        return firsts_of(self._index.claims, ids, verdicts, entries_max, self._places.elsewhere)

    async def _sequenced(self, request: ProduceRequest, requests: SequenceRequest, deadline: Deadline) -> ProduceResult:
        """Appends a producer's rows; the claim of their sequences, rows and completion are one append."""
        deadline.check()
        if request.ids is not None or len(requests.sequences) != request.rows.rows:
            raise BadRequest(
                f"{len(requests.sequences)} sequences for {request.rows.rows} rows, and no ids; nothing was written"
            )
        entries = self._topics.creation(request.topic, request.rows.schema)
        producer, decision, digest = self._producers.decide(requests, b"produce", request.digests)
        met = identify_topics(self.journal, IdentifiedBy.SEQUENCES, requests.producer, request.topic_ids)
        earlier = producer.calls.get(requests.call)
        earlier_at = None if earlier is None else earlier.position
        placed: list[_Placed] = []
        granted = len(decision.fresh) or len(decision.taken)
        if granted or (self._in_shadow and request.rows.rows):
            self.journal.group_commit.check()
            is_granted = (decision.actions == SequenceAction.GRANT) | (decision.actions == SequenceAction.TAKE_OVER)
            written = shares(request.rows, None if self._in_shadow else is_granted, self._partitions(request))
            written_before = 0 if self._in_shadow else len(written)
            args = requests, producer, decision, digest, written_before, request.digests
            done = self._producers.written(*args) if granted else []
            position, placed = self._record(request, written, [*entries, *met], None, _NO_DIGEST, done)
        else:
            producer.quiet_call = max(producer.quiet_call, requests.call)
        made_at = 0 if placed else self._topic_alone(request, entries, met)
        await self.journal.group_commit.durable(max(producer.position, made_at))
        self._producers.count(requests, producer, decision)
        rows = _count(placed)
        self.journal.counts.add(PRODUCED_ROWS, rows)
        ranges = _ranges(placed)
        if ranges and not self._in_shadow:
            self._places.remember(position, RowPlaces(ranges))
        call, soon = (producer.number, producer.epoch, requests.call), deadline.at_most(UNASKED_MS)
        before = () if earlier_at is None else await self._places.of_call(call, earlier_at, soon)
        return ProduceResult(rows, ranges, decision.verdicts, decision.numbers, before)

    async def _plain(self, request: ProduceRequest, deadline: Deadline) -> ProduceResult:
        journal = self.journal
        written = await shares_aside(request.rows, self._partitions(request))
        deadline.check()
        journal.group_commit.check()
        entries = self._topics.creation(request.topic, request.rows.schema)
        if not written:
            return ProduceResult(0, ())
        position, placed = self._record(request, written, entries, None, _NO_DIGEST)
        await journal.group_commit.durable(position)
        journal.counts.add(PRODUCED_ROWS, request.rows.rows)
        self._warnings.note(request.topic)
        return ProduceResult(request.rows.rows, _ranges(placed))

    @property
    def _in_shadow(self) -> bool:
        return bool(self._index.settings.in_force.shadow)

    def _others(self, decision: ClaimDecision) -> NDArray[np.bool_]:
        """Returns a mask, bool[rows], of the rows that shadow mode writes in addition to the granted rows: all others,
        but none in a repeat of a known call, whose first attempt wrote them."""
        if not self._in_shadow or decision.claim is not None:
            return np.zeros(len(decision.actions), np.bool_)
        is_other: NDArray[np.bool_] = (decision.actions != Action.GRANT) & (decision.actions != Action.TAKE_OVER)
        return is_other

    def _partitions(self, request: ProduceRequest) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
        partitions, turns = self._topics.layout(request.topic)
        return partition_of(request.keys, request.rows.rows, partitions, turns)

    def _write(
        self,
        request: ProduceRequest,
        decision: ClaimDecision,
        digest: bytes,
        entries: list[Entry],
        before: tuple[Span, ...],
        others: NDArray[np.bool_],
    ) -> tuple[int, list[_Placed]]:
        journal = self.journal
        journal.group_commit.check()
        is_granted = (decision.actions == Action.GRANT) | (decision.actions == Action.TAKE_OVER)
        partitions = self._partitions(request)
        written = shares(request.rows, is_granted, partitions)
        if others.any():
            written += shares(request.rows, others, partitions)
        return self._record(request, written, entries, decision, digest, before=before)

    def _topic_alone(self, request: ProduceRequest, entries: list[Entry], met: Sequence[Entry] = ()) -> int:
        """Records the topic and the entries `met` when no row is written; returns the last position, or 0 if nothing
        was recorded.

        The topic can then be read. `met` records the ids of its topics for a dedup scope from before such ids were
        kept.
        """
        alone = [*([] if self._topics.are_elsewhere else entries), *met]
        if not alone or not request.rows.rows:
            return 0
        self.journal.group_commit.check()
        return self.journal.record(alone)

    def _origin(
        self, request: ProduceRequest, rows: NDArray[np.int64] | None = None, before: tuple[Span, ...] = ()
    ) -> Origin | None:
        if not self._topics.tells_origins:
            return None
        return origins.of_rows(self.journal.namespace, request, rows, before)

    def _report(self, position: int, placed: _Placed) -> SendReport:
        def told(places: RowPlaces) -> None:
            placed.places = places
            self._places.remember(position, places)

        return SendReport(position, told)

    def _record(
        self,
        request: ProduceRequest,
        written: list[Share],
        entries: list[Entry],
        decision: ClaimDecision | None,
        digest: bytes,
        after: Sequence[Entry] = (),
        before: tuple[Span, ...] = (),
    ) -> tuple[int, list[_Placed]]:
        """Records one entry and one range for each partition, all in one append; returns the last position and the
        rows' locations.

        before: the spans that earlier tries of the call wrote.

        Places elsewhere are None until the append is durable.
        """
        journal = self.journal
        spans: list[Span] = []
        found: list[_Placed] = []
        outputs: list[OutputChange] = []
        wall_ms = journal.wall_ms()
        spilled = _spilled(request, wall_ms, journal.limits.name_bytes)
        # A repeat keeps the first claim id: a further repeat then finds everything that the call wrote.
        claim = journal.random(16) if decision is None or decision.claim is None else decision.claim
        for share in written:
            behind = sum(span.rows for span in spans if span.partition == share.partition)
            first_offset = self._index.topics.high_offset(request.topic, share.partition) + behind
            span = Span(share.partition, first_offset, len(share.row_indices), len(share.data))
            output = (request.topic, span.partition, span.first_offset, span.rows, span.size_bytes)
            fresh, taken, digests, taken_at = _ids(request, decision, share)
            ids = fresh, taken, digests, request.id_set, taken_at
            call = claim, request.token, request.call, digest, wall_ms
            entries.append(Produced(*output, *call, *ids, *spilled, request.sender.writer))
            range_id = journal.random(16)
            outputs.append(WriteRange(range_id, f"topic:{request.topic}:{span.partition}", span.rows, share.data))
            origin = self._origin(request, share.row_indices, (*before, *spans))
            placed = _Placed(share.row_indices)
            report = self._report(journal.position_of(len(entries) - 1), placed)
            publication = self._topics.publication(
                request.topic, span.partition, first_offset, (range_id,), origin, report=report
            )
            outputs.append(publication)
            if not self._topics.are_elsewhere:
                placed.places = RowPlaces((RowRange(request.topic, span.partition, first_offset, span.rows),))
            found.append(placed)
            spans.append(span)
        entries += [*scoped(request.scope if decision is not None else None, claim), *after]
        return journal.record(entries, outputs), found


def _count(written: list[_Placed]) -> int:
    return sum(len(placed.row_indices) for placed in written)


def _ranges(written: list[_Placed]) -> tuple[RowRange, ...]:
    """Returns the ranges of all rows; empty if a broker did not return an offset."""
    places = [placed.places for placed in written]
    if any(one is None or not one.is_known() for one in places):
        return ()
    return tuple(found for one in places if one is not None for found in one.ranges)


def _ids(request: ProduceRequest, decision: ClaimDecision | None, share: Share) -> tuple[bytes, bytes, bytes, bytes]:
    """Returns the id fields of a share's entry, each in bytes: (free ids, ids taken over, digests, rows taken over).

    Digests are those of the payloads, in the order of the ids; empty if the request has none. The rows taken over are
    indices into the share, uint32; empty unless the share has free ids too.
    """
    if decision is None or request.ids is None:
        return b"", b"", b"", b""
    ids, acts = request.ids[share.row_indices], decision.actions[share.row_indices]
    fresh, taken = acts == Action.GRANT, acts == Action.TAKE_OVER
    digests = b""
    if request.digests is not None:
        of_rows = request.digests[share.row_indices]
        digests = of_rows[fresh].tobytes() + of_rows[taken].tobytes()
    taken_at = np.flatnonzero(taken).astype("<u4").tobytes() if fresh.any() and taken.any() else b""
    return ids[fresh].tobytes(), ids[taken].tobytes(), digests, taken_at


def _spilled(request: ProduceRequest, wall_ms: int, name_bytes: int) -> tuple[int, str]:
    """Returns the time since when the rows had waited, and their owner; a time in the future is lowered to the ledger's
    clock."""
    if request.spilled is None:
        return 0, ""
    return max(1, min(request.spilled.wall_ms, wall_ms)), cut_name(request.spilled.who, name_bytes)


def _digest(request: ProduceRequest) -> bytes:
    """Returns a digest of the request, which differs from the digest of a claim of the same ids, since a call is one
    request."""
    assert request.ids is not None
    digests = b"" if request.digests is None else request.digests.tobytes()
    scope = b"" if request.scope is None else repr(request.scope).encode()
    return hashlib.blake2b(request.ids.tobytes() + digests + scope, digest_size=16, person=b"produce").digest()
