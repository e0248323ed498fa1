"""Named batches: stage, commit, abort. All or nothing, when the driver says so."""

from oncegate.core.batches import Outcome, decide
from oncegate.core.entries import Asked, Committed, Entry, Name, Staged
from oncegate.core.errors import BadRequest, ChunkAltered
from oncegate.engine.deadline import Deadline
from oncegate.engine.journal import Journal
from oncegate.engine.refusals import refusal
from oncegate.engine.requests import AbortAnswer, AbortAsk, CommitAnswer, CommitAsk, StageAnswer, StageAsk
from oncegate.engine.stages import Stages
from oncegate.engine.topics import Topics, check_schema, read_schema
from oncegate.index.batches import Stage, StagedChunk, totals
from oncegate.index.rowprints import RowFingerprinter, add
from oncegate.ports import DropRanges, OutputChange, PublishRanges, WriteRange


class Staging:
    """The use cases of named batches over one journal."""

    def __init__(self, journal: Journal, topics: Topics, stages: Stages, rowprints: RowFingerprinter) -> None:
        self._journal = journal
        self._topics = topics
        self._stages = stages
        self._rowprints = rowprints
        self._index = journal.index.batches

    async def stage(self, ask: StageAsk, deadline: Deadline) -> StageAnswer:
        """Keep one chunk of one attempt until its name is committed; durable when it returns.

        Once the name is committed nothing is stored, but the fingerprint is still given: the driver compares.
        Raises ChunkAltered, SchemaMismatch, QuotaExceeded, LedgerFull, DeadlinePassed: nothing was written;
        LedgerDown: unknown, repeat it.
        """
        deadline.check()
        fingerprint = self._fingerprint(ask)
        record = self._index.committed.get(ask.name)
        if record is not None:
            await self._journal.committer.durable(record.position)
            return StageAnswer(True, ask.rows.rows, fingerprint)
        self._stages.touch(ask.name, ask.owner)
        stage = self._index.stage(ask.name, ask.token)
        known = None if stage is None else stage.chunks.get(ask.chunk)
        position = self._repeated(ask, known) if known is not None else self._store(ask, stage, fingerprint)
        await self._journal.committer.durable(position)
        return StageAnswer(False, ask.rows.rows, fingerprint)

    def _fingerprint(self, ask: StageAsk) -> bytes:
        total = bytes(16)
        for batch in ask.rows.batches:
            total = add(total, self._rowprints.of_batch(batch))
        return total

    @staticmethod
    def _repeated(ask: StageAsk, known: StagedChunk) -> int:
        if known.sha256 != ask.sha256:
            raise ChunkAltered(f"chunk {ask.chunk} of this token was staged with other rows; nothing was written")
        return known.position

    def _store(self, ask: StageAsk, stage: Stage | None, fingerprint: bytes) -> int:
        journal, rows = self._journal, ask.rows
        journal.committer.check()
        self._topics.creation(ask.name.topic, rows.schema)
        if stage is not None and stage.chunks:
            check_schema(ask.name.topic, read_schema(next(iter(stage.chunks.values())).schema), rows.schema)
        self._stages.make_room(ask.name, ask.owner, len(rows.data))
        range_id = journal.random(16)
        entry = Staged(
            name=ask.name,
            owner=ask.owner,
            token=ask.token,
            chunk=ask.chunk,
            sha256=ask.sha256,
            rows=rows.rows,
            size_bytes=len(rows.data),
            fingerprint=fingerprint,
            schema=rows.schema.remove_metadata().serialize().to_pybytes(),
            range_id=range_id,
            wall_ms=journal.clock.wall_ms(),
        )
        journal.counts["staged_rows"] += rows.rows
        return journal.record([entry], [WriteRange(range_id, f"stage:{ask.token.hex()}", rows.rows, rows.data)])

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
            return CommitAnswer("COMMITTED", record.rows, record.first_offset, record.suppressed_rows, 0)
        journal.committer.check()
        rows, _ = totals(ask.winners)
        rows_equal = {None: 2, False: 0, True: 1}[facts.rows_equal]
        wall_ms = journal.clock.wall_ms()
        asked = Asked(ask.name, run, ask.nonce, row.outcome.value, rows, rows_equal, wall_ms)
        await journal.committer.durable(journal.record([asked]))
        if row.outcome is not Outcome.DUPLICATE:
            raise refusal(row.outcome, row.reason, ask, record)
        journal.counts["duplicate_commits"] += 1
        return self._duplicate(ask, record.rows, record.first_offset, rows, facts.rows_equal)

    def _duplicate(
        self, ask: CommitAsk, committed_rows: int, first_offset: int, rows: int, rows_equal: bool | None
    ) -> CommitAnswer:
        warning = None
        if rows_equal is False:
            warning = (
                f"the replay of {ask.name.app} {ask.name.version} brought {rows} other rows than the {committed_rows} "
                "committed: the plan is not deterministic or the job was changed; the first output stays"
            )
            self._journal.observer.event("replay_differs", namespace=self._journal.namespace, detail=warning)
        return CommitAnswer("DUPLICATE", committed_rows, first_offset, rows, 0, warning)

    async def _publish(self, ask: CommitAsk, run: bytes | None) -> CommitAnswer:
        journal, name = self._journal, ask.name
        journal.committer.check()
        entries, range_ids = self._winners_ranges(ask)
        first_offset = journal.index.topics.high_offset(name.topic)
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
                first_offset=first_offset,
                wall_ms=journal.clock.wall_ms(),
            )
        )
        outputs: list[OutputChange] = []
        if range_ids:
            outputs.append(PublishRanges(name.topic, 0, first_offset, tuple(range_ids)))
        losers = self._losers(name, {winner.token for winner in ask.winners})
        if losers:
            outputs.append(DropRanges(tuple(losers)))
        position = journal.record(entries, outputs)
        suppressed = self._index.committed[name].suppressed_rows
        await journal.committer.durable(position)
        journal.counts["committed_rows"] += rows
        return CommitAnswer("COMMITTED", rows, first_offset, suppressed, 0)

    def _winners_ranges(self, ask: CommitAsk) -> tuple[list[Entry], list[bytes]]:
        """What creates the topic, if need be, and the winners' ranges in order; SchemaMismatch before any effect."""
        entries: list[Entry] = []
        range_ids: list[bytes] = []
        first_schema = None
        for winner in ask.winners:
            stage = self._index.stage(ask.name, winner.token)
            if winner.chunks == 0 or stage is None:
                continue
            schema = read_schema(stage.chunks[0].schema)
            if first_schema is None:
                first_schema, entries = schema, self._topics.creation(ask.name.topic, schema)
            check_schema(ask.name.topic, first_schema, schema)
            range_ids += stage.range_ids
        return entries, range_ids

    def _losers(self, name: Name, won: set[bytes]) -> list[bytes]:
        stages = self._index.stages.get(name, {}).values()
        return [range_id for stage in stages if stage.token not in won for range_id in stage.range_ids]

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
