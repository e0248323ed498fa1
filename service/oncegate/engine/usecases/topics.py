"""Creates topics by name or by their first write, changes their settings, and reads them by offset."""

import shlex
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa

from oncegate.core.entries.kinds import Entry, IdentifiedBy, SetWritten, TopicCreated, TopicSet
from oncegate.core.errors import (
    BadRequest,
    LedgerFull,
    NotFound,
    OncegateError,
    OtherPartitions,
    SchemaMismatch,
    TooLarge,
    TopicReplaced,
)
from oncegate.engine.commit.journal import Journal
from oncegate.engine.commit.proven import answers
from oncegate.engine.deadline import Deadline
from oncegate.engine.requests import Fetched, Rows, Schema, TopicRequest, TopicView
from oncegate.engine.usecases.partitioning import selected
from oncegate.index.topics import TopicState
from oncegate.ports import Origin, Outputs, PublishRanges, RowTopics, SendRanges, SendReport

_NAMED = {
    IdentifiedBy.IDS: "id_set",
    IdentifiedBy.SEQUENCES: "producer",
    IdentifiedBy.BATCHES: "app",
    IdentifiedBy.LANE: "producer",
}
_OTHER_PRODUCER = (
    "Write under another producer's name (in Spark, assign_sequences with another prefix): all that comes is written. "
    "What the source does not bring again is gone: begin it again, in Spark with a new checkpoint, to write it too"
)
# For each kind: the rows that went to the topic, and the remedies.
_REPLACED = {
    IdentifiedBy.IDS: (
        "ids of set",
        "Write under a new id_set; or forget the set with: oncegate forget --id-set {id_set} --all --namespace "
        "{namespace}",
    ),
    IdentifiedBy.SEQUENCES: ("sequences of producer", _OTHER_PRODUCER),
    IdentifiedBy.BATCHES: (
        "batches of app",
        "Two ways on: commit under another `app` and go on in the source, and what is to come is written; or under "
        "another `app` from the beginning of the source (in Spark with a new checkpoint), and all of it is written",
    ),
    IdentifiedBy.LANE: ("sequences of producer", _OTHER_PRODUCER),
}


class Topics:
    """The topics of one journal."""

    def __init__(self, journal: Journal, outputs: Outputs, elsewhere: RowTopics | None = None) -> None:
        self.journal = journal
        self._outputs = outputs
        # Set if rows go to topics that are not the ledger's own; the index then only counts them.
        self._elsewhere = elsewhere
        self._index = journal.index.topics

    @answers("create_topic")
    async def create(self, request: TopicRequest, deadline: Deadline) -> tuple[TopicView, bool]:
        """Creates a topic or changes its settings; returns the topic, and whether it is new. Durable when it returns.

        Raises OtherPartitions, SchemaMismatch, TooLarge, BadRequest, LedgerFull, DeadlinePassed: nothing was changed.
        LedgerDown: effect unknown; retry.
        """
        deadline.check()
        if self._elsewhere is not None:
            where = "lie elsewhere, and are made and set up there" if self._elsewhere.where else "are switched off"
            raise BadRequest(f"topics of this namespace {where}; nothing was changed")
        journal, known = self.journal, self._index.get(request.topic)
        entry = self._created(request) if known is None else self._changed(request, known)
        if entry is not None:
            journal.group_commit.check()
            await journal.group_commit.durable(journal.record([entry]))
        return await self.remembered(request.topic), known is None

    def _created(self, request: TopicRequest) -> Entry:
        partitions = 1 if request.partitions is None else request.partitions
        if not 1 <= partitions <= self.journal.limits.partitions:
            raise TooLarge(f"{partitions} partitions; a topic has from 1 to {self.journal.limits.partitions}")
        schema = b"" if request.schema is None else schema_bytes(request.schema)
        wall_ms = self.journal.wall_ms()
        return TopicCreated(
            request.topic, partitions, schema, request.retention_ms or 0, request.retention_bytes or 0, wall_ms
        )

    def _changed(self, request: TopicRequest, known: TopicState) -> Entry | None:
        if request.partitions not in (None, len(known.partitions)):
            raise OtherPartitions(
                f"topic {request.topic} has {len(known.partitions)} partitions, and a topic keeps those it was made "
                "with: rows of one key would lie in two; make another topic. Nothing was changed",
                partitions=len(known.partitions),
            )
        schema, added = self._schema_of(request, known)
        retention_ms = known.retention_ms if request.retention_ms is None else request.retention_ms
        retention_bytes = known.retention_bytes if request.retention_bytes is None else request.retention_bytes
        if (schema, retention_ms, retention_bytes) == (known.schema, known.retention_ms, known.retention_bytes):
            return None
        return TopicSet(request.topic, schema, retention_ms, retention_bytes, self.journal.wall_ms(), added)

    def _schema_of(self, request: TopicRequest, known: TopicState) -> tuple[bytes, int]:
        """Returns the schema that the topic will have, and the number of columns added to it.

        Raises SchemaMismatch; TooLarge for more columns than a request may have, since no row could fill them all.
        """
        if request.schema is None or not known.schema:
            return (known.schema if request.schema is None else schema_bytes(request.schema)), 0
        own = read_schema(known.schema)
        if not request.merges:
            check_schema(request.topic, own, request.schema)
            return known.schema, 0
        new = [field for field in request.schema if field.name not in own.names]
        check_fits(request.topic, pa.schema([*own, *new]), request.schema)
        if not new:
            return known.schema, 0
        merged, columns_max = pa.schema([*own, *new]), self.journal.limits.columns_per_request
        columns = sum(_leaf_count(field.type) for field in merged)
        if columns > columns_max:
            raise TooLarge(f"topic {request.topic} would have {columns} columns; at most {columns_max} are taken")
        return schema_bytes(merged), len(new)

    async def fitted(
        self,
        topic: str,
        rows: Rows,
        keys: object = None,
        beside: Sequence[str] = (),
        origin: Origin | None = None,
        identified: bool = False,
    ) -> tuple[Rows, Mapping[str, bytes]]:
        """Checks rows for an external topic before any effect; returns the rows without columns that its records do not
        have.

        beside: the columns that may be dropped in this way.
        origin: set if records are to carry it.
        identified: also return the id of each topic elsewhere that the rows go to.

        Raises BadRequest if the rows carry hashes of keys, which choose partitions only in the ledger's own topics; and
        as `RowTopics.check`.
        """
        if self._elsewhere is None:
            return rows, {}
        if keys is not None and self._elsewhere.where:
            raise BadRequest(
                f"topic {topic} lies elsewhere, and its rows are placed by their column key: leave key_col out; "
                "nothing was written"
            )
        names = [name for name in rows.schema.names if name not in beside or name in self._elsewhere.columns.names]
        fitted = rows if len(names) == len(rows.schema.names) else selected(rows, names)
        checking = self._elsewhere.check(topic, fitted.schema, fitted.batches, origin, identified=identified)
        return fitted, await self._checked(checking)

    async def check_writable(
        self, topic: str, schema: Schema, staged_bytes: int, column_topics: Sequence[str] = ()
    ) -> Mapping[str, bytes]:
        """Checks that all staged rows can be written now, in one append; raises as `RowTopics.check`.

        column_topics: the topics that the rows' column `topic` names.

        Returns the ids of the topics elsewhere that the rows go to.
        """
        if self._elsewhere is None:
            return {}
        waiting: dict[str, Any] = {"waiting_bytes": staged_bytes, "waiting_topics": column_topics}
        checking = self._elsewhere.check(topic, schema, (), identified=True, **waiting)
        return await self._checked(checking)

    async def _checked(self, checking: Awaitable[Mapping[str, bytes]]) -> Mapping[str, bytes]:
        """Awaits a check of `RowTopics` and raises its errors.

        The topics are on the ledger's servers. If the check cannot reach them, a probe is appended: its outcome shows
        whether the ledger is unreachable too, and is reported by the group commit. The caller gets the refusal: nothing
        was written.
        """
        try:
            return await checking
        except LedgerFull:
            with suppress(OncegateError):
                self.journal.group_commit.probe()
            raise

    @property
    def are_elsewhere(self) -> bool:
        """True if rows go to external topics rather than the ledger's own; the index then does not know their
        offsets."""
        return self._elsewhere is not None

    @property
    def record_columns(self) -> Schema | None:
        """The columns of records in external topics, with their types; None if topics are the ledger's own."""
        return None if self._elsewhere is None else self._elsewhere.columns

    @property
    def tells_origins(self) -> bool:
        """True if records carry headers that name their writer, that is in external topics with `record_headers`
        set."""
        return self._elsewhere is not None and bool(self.journal.index.settings.in_force.record_headers)

    def publication(
        self,
        topic: str,
        partition: int,
        first_offset: int,
        range_ids: tuple[bytes, ...],
        origin: Origin | None = None,
        staged_bytes: int = 0,
        report: SendReport | None = None,
    ) -> PublishRanges | SendRanges:
        """Returns the change that appends ranges to a topic.

        origin, report: as in `SendRanges`; unused for the ledger's own topics.
        staged_bytes: size of the ranges that were staged.
        """
        if self._elsewhere is not None:
            return SendRanges(topic, range_ids, origin, staged_bytes, report)
        return PublishRanges(topic, partition, first_offset, range_ids)

    def creation(self, topic: str, schema: Schema) -> list[Entry]:
        """Returns the entry, if any, that creates the topic or gives it its schema, for rows of `schema`.

        Raises SchemaMismatch if the rows do not fit its columns; NotFound if the namespace does not create topics
        automatically; BadRequest for a topic of lanes.
        """
        known, wall_ms = self._index.get(topic), self.journal.wall_ms()
        if self.journal.index.lanes.writes(topic):
            raise BadRequest(
                f"topic {topic} is written by clients themselves (write=direct), and a topic is written one way: the "
                "same rows could come both ways; take another topic, or another namespace; nothing was written"
            )
        if self.are_elsewhere:
            return [] if known is not None else [TopicCreated(topic, 1, b"", 0, 0, wall_ms)]
        if known is None:
            if not self.journal.index.settings.in_force.auto_create_topics:
                raise NotFound(
                    f"there is no topic {topic}, and this namespace makes none by itself (auto_create_topics=false); "
                    f"PUT /v1/namespaces/{self.journal.namespace}/topics/{topic} makes it"
                )
            return [TopicCreated(topic, 1, schema_bytes(schema), 0, 0, wall_ms)]
        if known.schema:
            check_fits(topic, read_schema(known.schema), schema)
            return []
        return [TopicSet(topic, schema_bytes(schema), known.retention_ms, known.retention_bytes, wall_ms)]

    def layout(self, topic: str) -> tuple[int, int]:
        """Returns the number of partitions of the topic (of a new topic if it does not exist), and its number of writes
        so far."""
        known = self._index.get(topic)
        return (1, 0) if known is None else (len(known.partitions), known.turns)

    async def fetch(self, topic: str, partition: int, offset: int, max_rows: int, max_bytes: int) -> Fetched:
        """Reads the ranges that contain rows at or after `offset`; only durable rows are returned.

        Raises NotFound, BadRequest, OffsetTrimmed, LedgerDamaged, ReadElsewhere.
        """
        if self._elsewhere is not None:
            self._elsewhere.refuse_read(topic)
        view = await self.remembered(topic)
        if not 0 <= partition < view.partitions:
            raise NotFound(f"topic {topic} has the partitions 0 to {view.partitions - 1}; there is no {partition}")
        if offset < 0 or max_rows <= 0:
            raise BadRequest(f"offset {offset} and max_rows {max_rows}: from 0, and from 1")
        max_rows = min(max_rows, self.journal.limits.fetch_rows)
        low, high = view.low_offsets[partition], view.high_offsets[partition]
        chunks = await self._outputs.fetch(topic, partition, offset, max_rows, max_bytes) if offset < high else []
        # The schema is read after the rows, since their columns may have been added meanwhile.
        return Fetched(chunks, low, high, (await self.remembered(topic)).schema)

    @answers("topic")
    async def view(self, name: str) -> TopicView:
        """Returns the schema, offsets and retention of a topic, once these are durable. Raises NotFound."""
        return await self.remembered(name)

    async def remembered(self, name: str) -> TopicView:
        """Like `view`, but without a proof of ownership: for writes, which wait for an append of their own."""
        topic = self._index.get(name)
        if topic is None:
            raise NotFound(f"no topic {name} in namespace {self.journal.namespace}; its first write creates it")
        view = TopicView(
            name,
            read_schema(topic.schema) if topic.schema else None,
            [partition.low_offset for partition in topic.partitions],
            [partition.high_offset for partition in topic.partitions],
            topic.retention_ms,
            topic.retention_bytes,
        )
        await self.journal.group_commit.durable(topic.position)
        return view


def identify_topics(
    journal: Journal, identified_by: IdentifiedBy, name: str, topic_ids: Mapping[str, bytes]
) -> list[Entry]:
    """Returns the entries that record the ids of external topics, for each topic that receives such rows for the first
    time.

    name: the dedup scope, the producer or the app.
    topic_ids: current ids of the topics.

    Raises TopicReplaced if one of the topics was deleted and created again since: nothing was written.
    """
    id_sets, wall_ms = journal.index.id_sets, journal.wall_ms()
    for topic, topic_id in topic_ids.items():
        if id_sets.topic_id(identified_by, name, topic) not in (None, topic_id):
            rows, ways_on = _REPLACED[identified_by]
            ways = ways_on.format(id_set=shlex.quote(name), namespace=journal.namespace)
            raise TopicReplaced(
                f"topic {topic} was deleted and made again since {rows} {name!r} were written to it: they are known, "
                f"and their rows are gone. {ways}. Nothing was written",
                topic=topic,
                **{_NAMED[identified_by]: name},
            )
    new = {topic: one for topic, one in topic_ids.items() if id_sets.topic_id(identified_by, name, topic) is None}
    return [SetWritten(name, topic, topic_id, wall_ms, identified_by) for topic, topic_id in new.items()]


def schema_bytes(schema: Schema) -> bytes:
    """Encodes a schema in Arrow IPC form as stored with a topic: every column nullable, no metadata."""
    plain = pa.schema([field.with_nullable(True).remove_metadata() for field in schema])
    data: bytes = plain.serialize().to_pybytes()
    return data


def read_schema(data: bytes) -> Schema:
    return pa.ipc.read_schema(pa.py_buffer(data))


def check_schema(topic: str, known: Schema, brought: Schema) -> None:
    """Raises SchemaMismatch unless both schemas have the same names and types in the same order; nullability may
    differ."""
    if [(f.name, f.type) for f in known] != [(f.name, f.type) for f in brought]:
        raise SchemaMismatch(
            f"topic {topic} has the schema ({_show(known)}), the rows have ({_show(brought)}); nothing was written",
            topic_schema=_show(known),
            rows_schema=_show(brought),
        )


def check_fits(topic: str, known: Schema, brought: Schema) -> None:
    """Raises SchemaMismatch unless the topic has each column of the rows, by name and type.

    Columns may come in any order; those that the rows leave out are null.
    """
    types = {field.name: field.type for field in known}
    if any(types.get(field.name) != field.type for field in brought):
        raise SchemaMismatch(
            f"topic {topic} has the columns ({_show(known)}), the rows have ({_show(brought)}): each column of theirs "
            "has to be one of the topic's, by name and type; nothing was written",
            topic_schema=_show(known),
            rows_schema=_show(brought),
        )


def _leaf_count(kind: Any) -> int:
    """Counts the leaf columns of a type; a type that is not nested counts as one column."""
    if not pa.types.is_nested(kind) or not kind.num_fields:
        return 1
    return sum(_leaf_count(kind.field(number).type) for number in range(kind.num_fields))


def _show(schema: Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)
