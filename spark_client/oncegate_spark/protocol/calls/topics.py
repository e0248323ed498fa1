"""Calls that create, describe, list and read topics. No I/O."""

import base64
import json

import pyarrow as pa

from oncegate_spark.errors import OffsetTrimmed
from oncegate_spark.protocol import codecs
from oncegate_spark.protocol.answers import Topic
from oncegate_spark.protocol.calls.namespace import Calls
from oncegate_spark.protocol.calls.steps import Steps, joined, members_of, query, topic_path
from oncegate_spark.protocol.columns import Columns
from oncegate_spark.protocol.effort import Reply

FETCH_ROWS = 100_000  # the gateway's default; fewer rows come if they are wide
PAGE_NAMES = 1_000  # the gateway's maximum in one reply


def create_topic(
    calls: Calls,
    topic: str,
    partitions: int | None = None,
    retention_ms: int | None = None,
    retention_bytes: int | None = None,
    schema: pa.Schema | None = None,
    merge_schema: bool = False,
) -> Steps[None]:
    """Creates a topic, or changes the retention or adds columns of an existing one."""
    return calls.put(
        topic_path(topic),
        f"topic {topic}",
        partitions=partitions,
        retention_ms=retention_ms,
        retention_bytes=retention_bytes,
        schema_ipc=None if schema is None else base64.b64encode(schema.serialize().to_pybytes()).decode(),
        merge_schema=merge_schema or None,
    )


def look_at(calls: Calls, topic: str) -> Steps[Topic]:
    """Returns a topic's schema, offsets and retention. Raises NotFound."""
    return calls.get(topic_path(topic), f"look at topic {topic}", _topic)


def names(calls: Calls) -> Steps[list[str]]:
    """Lists the namespace's topics, page by page."""
    topic_names: list[str] = []
    after: str | None = ""
    while after is not None:
        path = f"/topics{query(after=after, limit=str(PAGE_NAMES))}"
        document = yield from calls.get(path, f"list topics of {calls.namespace}", members_of)
        topic_names += document["topics"]
        after = document["next"]
    return topic_names


def fetch(
    calls: Calls, topic: str, offset: int, max_rows: int, partition: int, columns: Columns | None = None
) -> Steps[tuple[pa.Table | None, int]]:
    """Reads rows of one partition from an offset; returns them with the next offset. Raises OffsetTrimmed."""
    parameters = query(offset=str(offset), max_rows=str(max_rows), columns=joined(columns or ()))
    path = f"{topic_path(topic)}/partitions/{partition}/records{parameters}"
    return calls.get(path, f"fetch of topic {topic}", _fetched, codecs.ARROW)


def read(calls: Calls, topic: str, columns: Columns | None = None) -> Steps[pa.Table | None]:
    """Reads all rows present at the time of the call, partition by partition."""
    description = yield from look_at(calls, topic)
    parts: list[pa.Table] = []
    for partition, (low, high) in enumerate(zip(description.low_offsets, description.high_offsets, strict=True)):
        parts += yield from _partition(calls, topic, partition, low, high, columns)
    # Columns may be added during the read; rows read earlier get nulls there.
    return pa.concat_tables(parts, promote_options="default") if parts else None


def _partition(
    calls: Calls, topic: str, partition: int, offset: int, high: int, columns: Columns | None
) -> Steps[list[pa.Table]]:
    parts: list[pa.Table] = []
    while offset < high:
        rows = min(FETCH_ROWS, high - offset)
        try:
            table, following = yield from fetch(calls, topic, offset, rows, partition, columns)
        # retention deleted rows since the look-up: continue at the first row that is left
        except OffsetTrimmed as gone:
            table, following = None, gone.low_offset
        if following <= offset:
            break
        offset = following
        if table is not None:
            parts.append(table)
    return parts


def _topic(reply: Reply) -> Topic:
    document = json.loads(reply.body)
    ipc = document.get("schema_ipc")
    schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(ipc))) if ipc else None
    ends = tuple(document["low_offsets"]), tuple(document["high_offsets"])
    return Topic(document["topic"], schema, *ends, document["retention_ms"], document["retention_bytes"])


def _fetched(reply: Reply) -> tuple[pa.Table | None, int]:
    following = int(reply.headers["oncegate-next-offset"])
    table = pa.ipc.open_stream(reply.body).read_all() if reply.body else None
    return (table if table is not None and table.num_rows else None), following
