"""Stages, commits and aborts named batches, which are published whole or not at all; returns the offsets from which
sources resume."""

from collections import Counter
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from oncegate.core.batches import CommitOutcome, DigestMatch, decide
from oncegate.core.causes import Cause
from oncegate.core.entries.kinds import Asked, Committed, Entry, IdentifiedBy, Name, Part, Span, Staged
from oncegate.core.errors import BadRequest, ChunkAltered, MissingStage, NotFound
from oncegate.engine.commit import origins
from oncegate.engine.commit.journal import Journal
from oncegate.engine.commit.places import Places
from oncegate.engine.commit.proven import answers
from oncegate.engine.counters import COMMITTED_ROWS, DUPLICATE_COMMITS, LOWER_VERSIONS, OTHER_REPLAYS, STAGED_ROWS
from oncegate.engine.deadline import Deadline
from oncegate.engine.names import check_source_offsets
from oncegate.engine.requests import AbortRequest, AbortResult, CommitRequest, CommitResult, StageRequest, StageResult
from oncegate.engine.usecases.batch_refusals import refusal
from oncegate.engine.usecases.partitioning import Share, partition_of, shares_aside
from oncegate.engine.usecases.stage_quota import StageQuota
from oncegate.engine.usecases.topics import Topics, check_schema, identify_topics, read_schema
from oncegate.engine.write_log import log_batch
from oncegate.index.batches import Stage, StagedChunk, totals
from oncegate.index.committed_names import CommittedName
from oncegate.index.writers import cause_between, is_newer_run, task_of
from oncegate.ports import DropRanges, Origin, OutputChange, RowPlaces, RowRange, SendReport, WriteRange


class Batches:
    """The named batches of one journal."""

    def __init__(self, journal: Journal, topics: Topics, stages: StageQuota, places: Places) -> None:
        self.journal = journal
        self._places = places
        self._topics = topics
        self._stages = stages
        self._index = journal.index.batches

    @answers("stage")
    async def stage(self, request: StageRequest, deadline: Deadline) -> StageResult:
        """Stores one chunk of an attempt's rows until the batch name is committed; durable when it returns.

        If the name is committed already, nothing is stored, but the fingerprint is returned for the driver to compare.

        Raises ChunkAltered, SchemaMismatch, TopicReplaced, QuotaExceeded, LedgerFull, DeadlinePassed: nothing was
        written. LedgerDown: effect unknown; retry.
        """
        origin = self._origin(request.name)
        topic = request.name.topic
        _, topic_ids = await self._topics.fitted(topic, request.rows, request.keys, origin=origin, identified=True)
        partitions, _ = self._topics.layout(request.name.topic)
        written = await shares_aside(request.rows, _partition_of(request, partitions))
        deadline.check()
        # Only checked here; the commit records the ids. Until then the topic holds none of the app's rows.
        self._identify(request.name, topic_ids)
        record = self._index.committed.get(request.name)
        if record is not None:
            await self.journal.group_commit.durable(record.position)
            return StageResult(True, request.rows.rows, request.fingerprint)
        self._stages.touch(request.name, request.owner)
        stage = self._index.stage(request.name, request.token)
        known = None if stage is None else stage.chunks.get(request.chunk)
        if known is not None:
            position = self._repeated(request, known)
        else:
            column_topics = tuple(topic_ids) if "topic" in request.rows.schema.names else ()
            key_partitions = 0 if request.keys is None else partitions
            position = self._store(request, stage, written, key_partitions, column_topics)
        await self.journal.group_commit.durable(position)
        return StageResult(False, request.rows.rows, request.fingerprint)

    def _identify(self, name: Name, topic_ids: Mapping[str, bytes]) -> list[Entry]:
        return identify_topics(self.journal, IdentifiedBy.BATCHES, name.app, topic_ids)

    def _origin(self, name: Name, first: int = 0) -> Origin | None:
        return origins.of_batch(self.journal.namespace, name, first) if self._topics.tells_origins else None

    @staticmethod
    def _repeated(request: StageRequest, known: StagedChunk) -> int:
        if known.sha256 != request.sha256:
            raise ChunkAltered(f"chunk {request.chunk} of this token was staged with other rows; nothing was written")
        return known.position

    def _store(
        self,
        request: StageRequest,
        stage: Stage | None,
        written: list[Share],
        key_partitions: int,
        column_topics: tuple[str, ...],
    ) -> int:
        journal, rows = self.journal, request.rows
        journal.group_commit.check()
        self._topics.creation(request.name.topic, rows.schema)
        if stage is not None and stage.chunks:
            check_schema(request.name.topic, read_schema(next(iter(stage.chunks.values())).schema), rows.schema)
        size_bytes = sum(len(share.data) for share in written)
        self._stages.make_room(request.name, request.owner, size_bytes)
        parts = tuple(
            Part(share.partition, len(share.row_indices), len(share.data), journal.random(16)) for share in written
        )
        entry = Staged(
            name=request.name,
            owner=request.owner,
            token=request.token,
            chunk=request.chunk,
            sha256=request.sha256,
            rows=rows.rows,
            size_bytes=size_bytes,
            fingerprint=request.fingerprint,
            schema=rows.schema.remove_metadata().serialize().to_pybytes(),
            parts=parts,
            wall_ms=journal.wall_ms(),
            key_partitions=key_partitions,
            writer=request.sender.writer,
            column_topics=tuple(one.encode() for one in column_topics),
        )
        journal.counts.add(STAGED_ROWS, rows.rows)
        stream = f"stage:{request.token.hex()}"
        outputs = [
            WriteRange(
                part.range_id, stream, part.rows, share.data, request.sha256 if share.data is rows.data else None
            )
            for part, share in zip(parts, written, strict=True)
        ]
        return journal.record([entry], outputs)

    @answers("commit")
    async def commit(self, request: CommitRequest, deadline: Deadline) -> CommitResult:
        """Publishes the winners' rows under the batch name, all or none; if the name is already committed, returns its
        earlier commit.

        Each request for a committed name is recorded durably before its answer.

        Raises MissingStage: write the batch again. BatchConflict, SecondWrite, BatchForgotten, TopicReplaced: stop.
        BadRequest, TooLarge, SchemaMismatch, LedgerFull, DeadlinePassed: nothing was written. LedgerDown: effect
        unknown; retry with the same nonce.
        """
        check_source_offsets(request.source_offsets, self.journal.limits)
        topic_ids = await self._check_writable(request)
        deadline.check()
        result = await self._commit(request, deadline, self._identify(request.name, topic_ids))
        log_batch(self.journal, request, result)
        return result

    async def _check_writable(self, request: CommitRequest) -> Mapping[str, bytes]:
        """Checks that the topic can be written now, if it is external and the commit has rows.

        Returns the ids of the topics that rows go to, or that a committed batch went to.
        """
        if not self._topics.are_elsewhere:
            return {}
        topic = request.name.topic
        stages = [self._index.stage(request.name, winner.token) for winner in request.winners]
        # Any chunk will do: the first one of a stage may be gone while a later one was staged again.
        chunks = [chunk for stage in stages if stage is not None for chunk in stage.chunks.values()]
        if chunks:
            size_bytes = sum(part.size_bytes for chunk in chunks for part in chunk.parts)
            column_topics = sorted({one.decode() for chunk in chunks for one in chunk.column_topics})
            return await self._topics.check_writable(topic, read_schema(chunks[0].schema), size_bytes, column_topics)
        id_sets = self.journal.index.id_sets
        if id_sets.topic_id(IdentifiedBy.BATCHES, request.name.app, topic) is not None:
            return await self._topics.check_writable(topic, pa.schema([("value", pa.binary())]), 0)
        return {}

    async def _commit(self, request: CommitRequest, deadline: Deadline, met: list[Entry]) -> CommitResult:
        if len({winner.token for winner in request.winners}) < len(request.winners):
            raise BadRequest("one token is named twice among the winners; nothing was written")
        journal, run = self.journal, None if request.run is None else request.run.encode()
        facts = self._index.facts(
            request.name,
            run,
            request.nonce,
            request.winners,
            request.digest,
            request.previous_digest,
            request.first_wins,
            request.reads_digest,
        )
        row = decide(facts)
        if row.outcome is CommitOutcome.COMMITTED:
            return await self._publish(request, run, met)
        if row.outcome is CommitOutcome.LOWER_VERSION:
            return await self._skip(request)
        if not facts.committed:
            raise refusal(row.outcome, row.reason, request, None)
        record = self._index.committed.get(request.name)
        assert record is not None, "facts say that it is committed"
        if row.outcome is CommitOutcome.COMMITTED_AGAIN:
            await journal.group_commit.durable(record.position)
            first, ranges = self._index.committed.is_first(request.name), await self._ranges(request, record, deadline)
            return CommitResult("COMMITTED", record.rows, ranges, record.suppressed_rows, 0, first_of_app=first)
        journal.group_commit.check()
        rows, _ = totals(request.winners)
        rows_equal = {None: 2, False: 0, True: 1}[facts.rows_equal]
        wall_ms = journal.wall_ms()
        # After a restored checkpoint, the next batch names this entry of the offset log as its predecessor.
        is_same = row.outcome is CommitOutcome.DUPLICATE and facts.reads is DigestMatch.EQUAL
        digest = (request.digest or b"") if is_same and facts.digests is not DigestMatch.EQUAL else b""
        decision = Asked(request.name, run, request.nonce, row.outcome.value, rows, rows_equal, wall_ms, digest)
        await journal.group_commit.durable(journal.record([*met, decision]))
        if row.outcome is not CommitOutcome.DUPLICATE:
            raise refusal(row.outcome, row.reason, request, record)
        journal.counts.add(DUPLICATE_COMMITS)
        is_late = is_newer_run(record.run, request.sender.writer, journal.index.claims.runs)
        journal.counts.add_cause(Cause.ZOMBIE if is_late else Cause.BATCH_REPLAY, rows, request.sender.client)
        ranges = await self._ranges(request, record, deadline)
        return self._duplicate(request, record, ranges, rows, facts.rows_equal)

    async def _ranges(self, request: CommitRequest, record: CommittedName, deadline: Deadline) -> tuple[RowRange, ...]:
        """Returns the ranges of a committed name's rows; empty if they are unknown."""
        if self._places.elsewhere:
            return await self._places.ranges([record.position] if record.spans else [], deadline)
        return _of_spans(request.name.topic, record.spans)

    def _duplicate(
        self,
        request: CommitRequest,
        record: CommittedName,
        ranges: tuple[RowRange, ...],
        rows: int,
        rows_equal: bool | None,
    ) -> CommitResult:
        warning = None
        if rows_equal is False:
            warning = (
                f"the replay of {request.name.app} {request.name.version} brought {rows} other rows than the "
                f"{record.rows} "
                "committed: the plan is not deterministic or the job was changed; the first output stays"
            )
            self.journal.counts.add(OTHER_REPLAYS)
            self.journal.observer.event("replay_differs", namespace=self.journal.namespace, detail=warning)
        return CommitResult("DUPLICATE", record.rows, ranges, rows, 0, warning)

    async def _skip(self, request: CommitRequest) -> CommitResult:
        """Drops the winners' stages of a batch version below a committed version; durable when it returns."""
        journal, name = self.journal, request.name
        higher = self._index.committed.higher_name(name)
        assert higher is not None, "facts say that a higher version is committed"
        staged = [winner.token for winner in request.winners if self._index.stage(name, winner.token) is not None]
        if staged:
            journal.group_commit.check()
            self._stages.drop(name, staged, "a higher version is committed")
        skipped, _ = totals(request.winners)
        # Missing stages, and the higher version's commit, may depend on entries that are not durable yet.
        await journal.group_commit.all_durable()
        warning = (
            f"version {name.version} of {name.app} to topic {name.topic} is skipped, as Delta Lake skips it: version "
            f"{higher.version} is committed, and numbers rise with each run. None of its {skipped} rows is written. A "
            "version that is no number, as 2026-11-20, has no order"
        )
        journal.counts.add(LOWER_VERSIONS)
        journal.counts.add_cause(Cause.BATCH_REPLAY, skipped, request.sender.client)
        journal.observer.event("version_skipped", namespace=journal.namespace, detail=warning)
        return CommitResult("DUPLICATE", 0, (), skipped, 0, warning, higher_version=higher.version)

    async def _publish(self, request: CommitRequest, run: bytes | None, met: list[Entry]) -> CommitResult:
        journal, name = self.journal, request.name
        journal.group_commit.check()
        entries, parts = self._winners_parts(request)
        rows, fingerprint = totals(request.winners)
        winners = tuple(winner.token + winner.chunks.to_bytes(4, "little") for winner in request.winners)
        entries += met
        sent: list[RowPlaces] = []
        # The report names the position of the next entry.
        report = SendReport(journal.position_of(len(entries)), sent.append, by_row=False)
        spans, outputs = self._published(name, parts, report)
        entries.append(
            Committed(
                name=name,
                run=run,
                nonce=request.nonce,
                winners=winners,
                digest=request.digest,
                fingerprint=fingerprint,
                rows=rows,
                spans=spans,
                wall_ms=journal.wall_ms(),
                source_offsets=request.source_offsets,
                reads_digest=request.reads_digest or b"",
            )
        )
        losers = self._losers(name, {winner.token for winner in request.winners})
        if losers:
            outputs.append(DropRanges(tuple(losers)))
        causes = self._causes(request)
        is_first = self._index.committed.is_first(name)
        position = journal.record(entries, outputs)
        committed = self._index.committed.get(name)
        suppressed = 0 if committed is None else committed.suppressed_rows
        await journal.group_commit.durable(position)
        journal.counts.add(COMMITTED_ROWS, rows)
        if (client := request.sender.client) is not None:
            client.ids += rows
        for cause, count in causes.items():
            journal.counts.add_cause(cause, count, client)
        ranges = _of_spans(name.topic, spans)
        if self._places.elsewhere:
            ranges = (
                tuple(one for places in sent for one in places.ranges) if all(map(RowPlaces.is_known, sent)) else ()
            )
        return CommitResult("COMMITTED", rows, ranges, suppressed, 0, first_of_app=is_first)

    def _published(
        self, name: Name, parts: list[Part], report: SendReport
    ) -> tuple[tuple[Span, ...], list[OutputChange]]:
        """Returns the span of rows in each partition, and the changes that publish them there."""
        spans: list[Span] = []
        outputs: list[OutputChange] = []
        for partition in sorted({part.partition for part in parts if part.rows}):
            mine = [part for part in parts if part.partition == partition]
            first_offset = self.journal.index.topics.high_offset(name.topic, partition)
            origin = self._origin(name, sum(span.rows for span in spans))
            rows, size_bytes = sum(part.rows for part in mine), sum(part.size_bytes for part in mine)
            spans.append(Span(partition, first_offset, rows, size_bytes))
            range_ids = tuple(part.range_id for part in mine)
            outputs.append(
                self._topics.publication(name.topic, partition, first_offset, range_ids, origin, size_bytes, report)
            )
        empty = [part.range_id for part in parts if part.partition not in {span.partition for span in spans}]
        return tuple(spans), [*outputs, *([DropRanges(tuple(empty))] if empty else [])]

    def _winners_parts(self, request: CommitRequest) -> tuple[list[Entry], list[Part]]:
        """Returns the entries that create the topic, if the topic is new, and the winners' parts in order.

        Raises SchemaMismatch, MissingStage before any effect.
        """
        entries: list[Entry] = []
        parts: list[Part] = []
        first_schema = None
        for winner in request.winners:
            stage = self._index.stage(request.name, winner.token)
            if winner.chunks == 0 or stage is None:
                continue
            schema = read_schema(stage.chunks[0].schema)
            if first_schema is None:
                first_schema, entries = schema, self._topics.creation(request.name.topic, schema)
            check_schema(request.name.topic, first_schema, schema)
            self._check_layout(request.name.topic, stage)
            parts += stage.parts
        return entries, parts

    def _check_layout(self, topic: str, stage: Stage) -> None:
        """Raises MissingStage if the rows' keys were assigned to a different number of partitions from the topic's
        current one."""
        partitions, _ = self._topics.layout(topic)
        for chunk in stage.chunks.values():
            if chunk.key_partitions not in (0, partitions):
                raise MissingStage(
                    f"rows were staged when topic {topic} had {chunk.key_partitions} partition, and it has "
                    f"{partitions}: write the batch again. Nothing was written"
                )

    def _causes(self, request: CommitRequest) -> Counter[Cause]:
        """Counts the staged rows of losing attempts by the cause of the attempt."""
        stages, runs = self._index.stages.get(request.name, {}), self.journal.index.claims.runs
        won = {winner.token for winner in request.winners}
        winners = {task_of(stage.writer): stage.writer for stage in stages.values() if stage.token in won}
        causes = Counter[Cause]()
        for stage in stages.values():
            if stage.token in won:
                continue
            winner = winners.get(task_of(stage.writer), b"")
            cause = cause_between(winner, stage.writer, runs)
            # The later of the two attempts is the repeat, whichever was published.
            cause = cause_between(stage.writer, winner, runs) if cause is Cause.ZOMBIE else cause
            causes[Cause.TASK_RETRY if cause is Cause.UNKNOWN else cause] += stage.rows
        return causes

    def _losers(self, name: Name, won: set[bytes]) -> list[bytes]:
        stages = self._index.stages.get(name, {}).values()
        return [part.range_id for stage in stages if stage.token not in won for part in stage.parts]

    @answers("abort")
    async def abort(self, request: AbortRequest, deadline: Deadline) -> AbortResult:
        """Removes the stages of exactly these tokens; no effect if the batch name is committed.

        Raises LedgerFull, DeadlinePassed: nothing was written. LedgerDown: effect unknown; retry.
        """
        deadline.check()
        record = self._index.committed.get(request.name)
        if record is not None:
            await self.journal.group_commit.durable(record.position)
            return AbortResult(True, 0)
        there = [token for token in dict.fromkeys(request.tokens) if self._index.stage(request.name, token) is not None]
        if there:
            self.journal.group_commit.check()
            self._stages.drop(request.name, there, "aborted")
        # Missing stages may have been removed by entries that are not durable yet.
        await self.journal.group_commit.all_durable()
        return AbortResult(False, len(there))

    @answers("source_offsets")
    async def source_offsets(self, app: str, topic: str, write_id: str) -> bytes:
        """Returns the offsets from which to resume a source, once these offsets are durable.

        Source: the newest batch of this app, topic and write_id, or a newer ack of driver `app` for the topic. Raises
        NotFound if there is neither, or if the newest one carried no offsets.
        """
        told = self.journal.index.source_offsets.get(app, topic, write_id)
        if told is None:
            of_write = f" under write_id {write_id}" if write_id else ""
            raise NotFound(
                f"no source_offsets of app {app} in topic {topic}{of_write}: no batch and no ack has brought any, or "
                "the newest one brought none"
            )
        await self.journal.group_commit.durable(told.position)
        return told.offsets


def _of_spans(topic: str, spans: tuple[Span, ...]) -> tuple[RowRange, ...]:
    return tuple(RowRange(topic, span.partition, span.first_offset, span.rows) for span in spans)


def _partition_of(request: StageRequest, partitions: int) -> NDArray[np.int64]:
    """Chooses the partition of each row, the same in every repeat of a chunk. Without keys, an attempt's chunks take
    the partitions in turn."""
    turn = int.from_bytes(request.token[:4], "little") + request.chunk
    return partition_of(request.keys, request.rows.rows, partitions, turn)
