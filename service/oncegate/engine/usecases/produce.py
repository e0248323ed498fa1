"""Produce: rows written at once, with ids (each takes effect once) or without (`plain`, at least once)."""

import hashlib
from collections.abc import Sequence

import numpy as np

from oncegate.core.claims import Action
from oncegate.core.entries.kinds import Entry, Produced, Span
from oncegate.core.errors import BadRequest
from oncegate.core.producers import Action as SequenceAction
from oncegate.engine.commit.journal import Journal
from oncegate.engine.counters import count_verdicts
from oncegate.engine.deadline import Deadline
from oncegate.engine.producer_requests import SequenceAsk
from oncegate.engine.requests import ProduceAnswer, ProduceAsk
from oncegate.engine.usecases.batch_scopes import is_over, scoped, stale
from oncegate.engine.usecases.partitioning import Share, partition_of, shares, shares_aside
from oncegate.engine.usecases.producers import Producers
from oncegate.engine.usecases.topics import Topics
from oncegate.index.claims.results import Asked
from oncegate.index.table.arrays import NO_DIGESTS
from oncegate.ports import OutputChange, PublishRanges, WriteRange

_NO_DIGEST = bytes(16)


class Producing:
    """The use case of producing over one journal."""

    def __init__(self, journal: Journal, topics: Topics) -> None:
        self._journal = journal
        self._topics = topics
        self._index = journal.index
        self._producers = Producers(journal)

    async def produce(self, ask: ProduceAsk, deadline: Deadline) -> ProduceAnswer:
        """Append rows to a topic. With ids claim, done and output are one; what is not GRANTED is left out.

        A repeat of rows with ids writes what nobody wrote meanwhile, and is told DUPLICATE (own) of the rest; a repeat
        of rows without ids is written again.
        Raises SchemaMismatch, NotFound, TooLarge, TokenReused, Overloaded, LedgerFull, DeadlinePassed, with sequences
        also what `Producers.claim` does: nothing was written; LedgerDown: unknown, repeat the same token and call.
        """
        if ask.sequenced is not None:
            return await self._sequenced(ask, ask.sequenced, deadline)
        if ask.ids is None:
            return await self._plain(ask, deadline)
        deadline.check()
        if ask.scope is not None and await is_over(self._journal, ask.scope):
            return ProduceAnswer(0, (), *stale(self._journal, len(ask.ids)))
        entries, digest = self._topics.creation(ask.topic, ask.rows.schema), _digest(ask)
        now_ms = self._journal.clock.monotonic_ms()
        digests = NO_DIGESTS if ask.digests is None else ask.digests
        asked = self._index.claims.ask(ask.token, ask.call, digest, ask.ids, now_ms, "produce", digests)
        rests_on = asked.rests_on
        spans: tuple[Span, ...] = ()
        if len(asked.fresh) or len(asked.taken):
            rests_on, spans = self._write(ask, asked, digest, entries)
        await self._journal.committer.durable(rests_on)
        count_verdicts(self._journal.counts, asked.actions, asked.verdicts)
        rows = sum(span.rows for span in spans)
        self._journal.counts["produced_rows"] += rows
        return ProduceAnswer(rows, spans, asked.verdicts, asked.numbers)

    async def _sequenced(self, ask: ProduceAsk, asks: SequenceAsk, deadline: Deadline) -> ProduceAnswer:
        """Claim, rows and completion of a producer's sequences are one append."""
        deadline.check()
        if ask.ids is not None or len(asks.sequences) != ask.rows.rows:
            raise BadRequest(
                f"{len(asks.sequences)} sequences for {ask.rows.rows} rows, and no ids; nothing was written"
            )
        entries = self._topics.creation(ask.topic, ask.rows.schema)
        producer, asked, digest = self._producers.decide(asks, b"produce")
        spans: tuple[Span, ...] = ()
        if len(asked.fresh) or len(asked.taken):
            self._journal.committer.check()
            wanted = (asked.actions == SequenceAction.GRANT) | (asked.actions == SequenceAction.TAKE_OVER)
            written = shares(ask.rows, wanted, self._partitions(ask))
            done = self._producers.written(asks, producer, asked, digest)
            spans = self._record(ask, written, entries, None, _NO_DIGEST, done)[1]
        else:
            producer.quiet_call = max(producer.quiet_call, asks.call)
        await self._journal.committer.durable(producer.position)
        self._producers.count(asked)
        rows = sum(span.rows for span in spans)
        self._journal.counts["produced_rows"] += rows
        return ProduceAnswer(rows, spans, asked.verdicts, asked.numbers)

    async def _plain(self, ask: ProduceAsk, deadline: Deadline) -> ProduceAnswer:
        journal = self._journal
        written = await shares_aside(ask.rows, self._partitions(ask))
        deadline.check()
        journal.committer.check()
        entries = self._topics.creation(ask.topic, ask.rows.schema)
        if not written:
            return ProduceAnswer(0, ())
        position, spans = self._record(ask, written, entries, None, _NO_DIGEST)
        await journal.committer.durable(position)
        journal.counts["produced_rows"] += ask.rows.rows
        return ProduceAnswer(ask.rows.rows, spans)

    def _partitions(self, ask: ProduceAsk) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
        partitions, turns = self._topics.layout(ask.topic)
        return partition_of(ask.keys, ask.rows.rows, partitions, turns)

    def _write(
        self, ask: ProduceAsk, asked: Asked, digest: bytes, entries: list[Entry]
    ) -> tuple[int, tuple[Span, ...]]:
        journal = self._journal
        journal.committer.check()
        wanted = (asked.actions == Action.GRANT) | (asked.actions == Action.TAKE_OVER)
        written = shares(ask.rows, wanted, self._partitions(ask))
        ids = len(asked.fresh) + len(asked.taken)
        self._index.claims.make_room(ids, journal.clock.monotonic_ms(), len(written), digests=bool(asked.digests))
        return self._record(ask, written, entries, asked, digest)

    def _record(
        self,
        ask: ProduceAsk,
        written: list[Share],
        entries: list[Entry],
        asked: Asked | None,
        digest: bytes,
        after: Sequence[Entry] = (),
    ) -> tuple[int, tuple[Span, ...]]:
        """An entry and a range for each partition, all in one append; the last position, and what was written where."""
        journal = self._journal
        spans: list[Span] = []
        outputs: list[OutputChange] = []
        claim, wall_ms = journal.random(16), journal.wall_ms()
        for share in written:
            first_offset = self._index.topics.high_offset(ask.topic, share.partition)
            span = Span(share.partition, first_offset, len(share.places), len(share.data))
            place = (ask.topic, span.partition, span.first_offset, span.rows, span.size_bytes)
            entries.append(Produced(*place, claim, ask.token, ask.call, digest, wall_ms, *_ids(ask, asked, share)))
            range_id = journal.random(16)
            outputs.append(WriteRange(range_id, f"topic:{ask.topic}:{span.partition}", span.rows, share.data))
            outputs.append(PublishRanges(ask.topic, span.partition, first_offset, (range_id,)))
            spans.append(span)
        entries += [*scoped(ask.scope if asked is not None else None, claim), *after]
        return journal.record(entries, outputs), tuple(spans)


def _ids(ask: ProduceAsk, asked: Asked | None, share: Share) -> tuple[bytes, bytes, bytes]:
    """The fingerprints of a share's rows: those that were free, and those whose lease had run out; the digests of both
    one's payloads, where they came with any."""
    if asked is None or ask.ids is None:
        return b"", b"", b""
    ids, acts = ask.ids[share.places], asked.actions[share.places]
    fresh, taken = acts == Action.GRANT, acts == Action.TAKE_OVER
    digests = b""
    if ask.digests is not None:
        came = ask.digests[share.places]
        digests = came[fresh].tobytes() + came[taken].tobytes()
    return ids[fresh].tobytes(), ids[taken].tobytes(), digests


def _digest(ask: ProduceAsk) -> bytes:
    """Another than a claim's of the same ids: one call is one request."""
    assert ask.ids is not None
    digests = b"" if ask.digests is None else ask.digests.tobytes()
    return hashlib.blake2b(ask.ids.tobytes() + digests, digest_size=16, person=b"produce").digest()
