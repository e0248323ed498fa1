"""Named batches: stage, commit, abort. All or nothing, when the driver says so."""

import numpy as np
from numpy.typing import NDArray

from oncegate.core.batches import Outcome, decide
from oncegate.core.entries.kinds import Asked, Committed, Entry, Name, Part, Span, Staged
from oncegate.core.errors import BadRequest, ChunkAltered
from oncegate.engine.commit.journal import Journal
from oncegate.engine.deadline import Deadline
from oncegate.engine.requests import AbortAnswer, AbortAsk, CommitAnswer, CommitAsk, StageAnswer, StageAsk
from oncegate.engine.usecases.batch_refusals import refusal
from oncegate.engine.usecases.partitioning import Share, partition_of, shares_aside
from oncegate.engine.usecases.stage_quota import Stages
from oncegate.engine.usecases.topics import Topics, check_schema, read_schema
from oncegate.index.batches import CommittedName, Stage, StagedChunk, totals
from oncegate.ports import DropRanges, OutputChange, PublishRanges, WriteRange


class Staging:
    """The use cases of named batches over one journal."""

    def __init__(self, journal: Journal, topics: Topics, stages: Stages) -> None:
        self._journal = journal
        self._topics = topics
        self._stages = stages
        self._index = journal.index.batches

    async def stage(self, ask: StageAsk, deadline: Deadline) -> StageAnswer:
        """Keep one chunk of one attempt until its name is committed; durable when it returns.

        Once the name is committed nothing is stored, but the fingerprint is still given: the driver compares.
        Raises ChunkAltered, SchemaMismatch, QuotaExceeded, LedgerFull, DeadlinePassed: nothing was written;
        LedgerDown: unknown, repeat it.
        """
        written = await shares_aside(ask.rows, self._partitions(ask))
        deadline.check()
        record = self._index.committed.get(ask.name)
        if record is not None:
            await self._journal.committer.durable(record.position)
            return StageAnswer(True, ask.rows.rows, ask.fingerprint)
        self._stages.touch(ask.name, ask.owner)
        stage = self._index.stage(ask.name, ask.token)
        known = None if stage is None else stage.chunks.get(ask.chunk)
        position = self._repeated(ask, known) if known is not None else self._store(ask, stage, written)
        await self._journal.committer.durable(position)
        return StageAnswer(False, ask.rows.rows, ask.fingerprint)

    @staticmethod
    def _repeated(ask: StageAsk, known: StagedChunk) -> int:
        if known.sha256 != ask.sha256:
            raise ChunkAltered(f"chunk {ask.chunk} of this token was staged with other rows; nothing was written")
        return known.position

    def _store(self, ask: StageAsk, stage: Stage | None, written: list[Share]) -> int:
        journal, rows = self._journal, ask.rows
        journal.committer.check()
        self._topics.creation(ask.name.topic, rows.schema)
        if stage is not None and stage.chunks:
            check_schema(ask.name.topic, read_schema(next(iter(stage.chunks.values())).schema), rows.schema)
        size_bytes = sum(len(share.data) for share in written)
        self._stages.make_room(ask.name, ask.owner, size_bytes)
        parts = tuple(
            Part(share.partition, len(share.places), len(share.data), journal.random(16)) for share in written
        )
        entry = Staged(
            name=ask.name,
            owner=ask.owner,
            token=ask.token,
            chunk=ask.chunk,
            sha256=ask.sha256,
            rows=rows.rows,
            size_bytes=size_bytes,
            fingerprint=ask.fingerprint,
            schema=rows.schema.remove_metadata().serialize().to_pybytes(),
            parts=parts,
            wall_ms=journal.wall_ms(),
        )
        journal.counts["staged_rows"] += rows.rows
        outputs = [
            WriteRange(part.range_id, f"stage:{ask.token.hex()}", part.rows, share.data)
            for part, share in zip(parts, written, strict=True)
        ]
        return journal.record([entry], outputs)

    def _partitions(self, ask: StageAsk) -> NDArray[np.int64]:
        """The same for every repeat of a chunk; without keys, an attempt's chunks take turns among the partitions."""
        partitions, _ = self._topics.layout(ask.name.topic)
        turn = int.from_bytes(ask.token[:4], "little") + ask.chunk
        return partition_of(ask.keys, ask.rows.rows, partitions, turn)

    async def commit(self, ask: CommitAsk, deadline: Deadline) -> CommitAnswer:
        """Publish the winners' rows under the name, all or nothing, or say what the name already holds.

        Every ask for a committed name is itself durable before its answer. Raises MissingStage: the batch must be
        written again; Conflict, SecondWrite, BatchForgotten: stop; BadRequest, SchemaMismatch, LedgerFull,
        DeadlinePassed: nothing was written; LedgerDown: unknown, repeat it with the same nonce.
        """
        deadline.check()
        if len({winner.token for winner in ask.winners}) < len(ask.winners):
            raise BadRequest("one token is named twice among the winners; nothing was written")
        journal, run = self._journal, None if ask.run is None else ask.run.encode()
        facts = self._index.facts(
            ask.name, run, ask.nonce, ask.winners, ask.digest, ask.previous_digest, ask.first_wins
        )
        row = decide(facts)
        if row.outcome is Outcome.COMMITTED:
            return await self._publish(ask, run)
        if not facts.committed:
            raise refusal(row.outcome, row.reason, ask, None)
        record = self._index.committed[ask.name]
        if row.outcome is Outcome.COMMITTED_AGAIN:
            await journal.committer.durable(record.position)
            return CommitAnswer("COMMITTED", record.rows, record.spans, record.suppressed_rows, 0)
        journal.committer.check()
        rows, _ = totals(ask.winners)
        rows_equal = {None: 2, False: 0, True: 1}[facts.rows_equal]
        wall_ms = journal.wall_ms()
        asked = Asked(ask.name, run, ask.nonce, row.outcome.value, rows, rows_equal, wall_ms)
        await journal.committer.durable(journal.record([asked]))
        if row.outcome is not Outcome.DUPLICATE:
            raise refusal(row.outcome, row.reason, ask, record)
        journal.counts["duplicate_commits"] += 1
        return self._duplicate(ask, record, rows, facts.rows_equal)

    def _duplicate(self, ask: CommitAsk, record: CommittedName, rows: int, rows_equal: bool | None) -> CommitAnswer:
        warning = None
        if rows_equal is False:
            warning = (
                f"the replay of {ask.name.app} {ask.name.version} brought {rows} other rows than the {record.rows} "
                "committed: the plan is not deterministic or the job was changed; the first output stays"
            )
            self._journal.observer.event("replay_differs", namespace=self._journal.namespace, detail=warning)
        return CommitAnswer("DUPLICATE", record.rows, record.spans, rows, 0, warning)

    async def _publish(self, ask: CommitAsk, run: bytes | None) -> CommitAnswer:
        journal, name = self._journal, ask.name
        journal.committer.check()
        entries, parts = self._winners_parts(ask)
        spans, outputs = self._published(name.topic, parts)
        rows, fingerprint = totals(ask.winners)
        winners = tuple(winner.token + winner.chunks.to_bytes(4, "little") for winner in ask.winners)
        entries.append(
            Committed(
                name=name,
                run=run,
                nonce=ask.nonce,
                winners=winners,
                digest=ask.digest,
                fingerprint=fingerprint,
                rows=rows,
                spans=spans,
                wall_ms=journal.wall_ms(),
            )
        )
        losers = self._losers(name, {winner.token for winner in ask.winners})
        if losers:
            outputs.append(DropRanges(tuple(losers)))
        position = journal.record(entries, outputs)
        suppressed = self._index.committed[name].suppressed_rows
        await journal.committer.durable(position)
        journal.counts["committed_rows"] += rows
        return CommitAnswer("COMMITTED", rows, spans, suppressed, 0)

    def _published(self, topic: str, parts: list[Part]) -> tuple[tuple[Span, ...], list[OutputChange]]:
        """Where each partition's rows come to lie, and the changes that put them there."""
        spans: list[Span] = []
        outputs: list[OutputChange] = []
        for partition in sorted({part.partition for part in parts if part.rows}):
            mine = [part for part in parts if part.partition == partition]
            first_offset = self._journal.index.topics.high_offset(topic, partition)
            rows, size_bytes = sum(part.rows for part in mine), sum(part.size_bytes for part in mine)
            spans.append(Span(partition, first_offset, rows, size_bytes))
            outputs.append(PublishRanges(topic, partition, first_offset, tuple(part.range_id for part in mine)))
        empty = [part.range_id for part in parts if part.partition not in {span.partition for span in spans}]
        return tuple(spans), [*outputs, *([DropRanges(tuple(empty))] if empty else [])]

    def _winners_parts(self, ask: CommitAsk) -> tuple[list[Entry], list[Part]]:
        """What makes the topic, if need be, and the winners' parts in order; SchemaMismatch before any effect."""
        entries: list[Entry] = []
        parts: list[Part] = []
        first_schema = None
        for winner in ask.winners:
            stage = self._index.stage(ask.name, winner.token)
            if winner.chunks == 0 or stage is None:
                continue
            schema = read_schema(stage.chunks[0].schema)
            if first_schema is None:
                first_schema, entries = schema, self._topics.creation(ask.name.topic, schema)
            check_schema(ask.name.topic, first_schema, schema)
            parts += stage.parts
        return entries, parts

    def _losers(self, name: Name, won: set[bytes]) -> list[bytes]:
        stages = self._index.stages.get(name, {}).values()
        return [part.range_id for stage in stages if stage.token not in won for part in stage.parts]

    async def abort(self, ask: AbortAsk, deadline: Deadline) -> AbortAnswer:
        """Remove the stages of these tokens, and only those; no effect on a committed name.

        Raises LedgerFull, DeadlinePassed: nothing was written; LedgerDown: unknown, repeat it.
        """
        deadline.check()
        record = self._index.committed.get(ask.name)
        if record is not None:
            await self._journal.committer.durable(record.position)
            return AbortAnswer(True, 0)
        there = [token for token in dict.fromkeys(ask.tokens) if self._index.stage(ask.name, token) is not None]
        if there:
            self._journal.committer.check()
            self._stages.drop(ask.name, there, "aborted")
        # What is not there may be gone by an entry that still waits.
        await self._journal.committer.all_durable()
        return AbortAnswer(False, len(there))
