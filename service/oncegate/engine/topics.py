"""Topics: produce without ids, read back by offset."""

import pyarrow as pa

from oncegate.core.entries import Entry, Produced, TopicCreated
from oncegate.core.errors import BadRequest, NotFound, SchemaMismatch
from oncegate.engine.deadline import Deadline
from oncegate.engine.journal import Journal
from oncegate.engine.requests import Fetched, ProduceAnswer, ProduceAsk, Schema, TopicView
from oncegate.ports import Ledger, OutputChange, PublishRanges, WriteRange


class Topics:
    """The use cases of topics over one journal; each topic has one partition, 0."""

    def __init__(self, journal: Journal, ledger: Ledger) -> None:
        self._journal = journal
        self._ledger = ledger
        self._index = journal.index.topics

    async def produce(self, ask: ProduceAsk, deadline: Deadline) -> ProduceAnswer:
        """Append rows to a topic without asking for ids (`plain`): at least once, a repeat is written again.

        Raises SchemaMismatch, LedgerFull, DeadlinePassed: nothing was written; LedgerDown: unknown.
        """
        journal = self._journal
        deadline.check()
        journal.committer.check()
        entries = self.creation(ask.topic, ask.rows.schema)
        first_offset, rows = self._index.high_offset(ask.topic), ask.rows.rows
        if rows == 0:
            return ProduceAnswer(first_offset, 0)
        range_id = journal.random(16)
        entries.append(Produced(ask.topic, ask.token, ask.call, first_offset, rows, journal.clock.wall_ms()))
        outputs: list[OutputChange] = [
            WriteRange(range_id, f"topic:{ask.topic}", rows, ask.rows.data),
            PublishRanges(ask.topic, 0, first_offset, (range_id,)),
        ]
        await journal.committer.durable(journal.record(entries, outputs))
        journal.counts["produced_rows"] += rows
        return ProduceAnswer(first_offset, rows)

    def creation(self, topic: str, schema: Schema) -> list[Entry]:
        """The entry that creates the topic, if it does not exist; SchemaMismatch when it has another schema."""
        known = self._index.get(topic)
        if known is not None:
            check_schema(topic, read_schema(known.schema), schema)
            return []
        nullable = pa.schema([field.with_nullable(True).remove_metadata() for field in schema])
        return [TopicCreated(topic, nullable.serialize().to_pybytes(), self._journal.clock.wall_ms())]

    async def fetch(self, topic: str, partition: int, offset: int, max_rows: int) -> Fetched:
        """The ranges that hold rows from `offset` on; nothing that is not durable is ever seen.

        Raises NotFound, BadRequest, OffsetTrimmed, LedgerDamaged.
        """
        view = await self.view(topic)
        if partition != 0:
            raise NotFound(f"topic {topic} has one partition, 0; there is no {partition}")
        if offset < 0 or max_rows <= 0:
            raise BadRequest(f"offset {offset} and max_rows {max_rows}: from 0, and from 1")
        limits, chunks = self._journal.limits, []
        if offset < view.high_offset:
            wanted = min(max_rows, limits.fetch_rows)
            chunks = await self._ledger.fetch(topic, partition, offset, wanted, limits.body_bytes)
        return Fetched(chunks, view.low_offset, view.high_offset, view.schema)

    async def view(self, name: str) -> TopicView:
        """Schema and ends of a topic, once they are durable; NotFound when nothing was ever written to it."""
        topic = self._index.get(name)
        if topic is None:
            raise NotFound(f"no topic {name} in namespace {self._journal.namespace}; its first write creates it")
        high_offset = topic.high_offset
        await self._journal.committer.durable(topic.position)
        return TopicView(name, 1, read_schema(topic.schema), 0, high_offset)


def read_schema(data: bytes) -> Schema:
    """The Arrow schema in IPC form `data`."""
    return pa.ipc.read_schema(pa.py_buffer(data))


def check_schema(topic: str, known: Schema, brought: Schema) -> None:
    """SchemaMismatch unless both have the same names and types in the same order; nullability is free."""
    if [(f.name, f.type) for f in known] != [(f.name, f.type) for f in brought]:
        raise SchemaMismatch(
            f"topic {topic} has the schema ({_show(known)}), the rows have ({_show(brought)}); nothing was written",
            topic_schema=_show(known),
            rows_schema=_show(brought),
        )


def _show(schema: Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)
