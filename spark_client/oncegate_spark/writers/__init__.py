"""The ways to write: each a `Way`, chosen by the option `write`."""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import pyarrow as pa

from oncegate_spark import codecs
from oncegate_spark.checkpoint import Input
from oncegate_spark.errors import BadId
from oncegate_spark.identity import Task
from oncegate_spark.options import Options
from oncegate_spark.writers.claim import ClaimWay
from oncegate_spark.writers.plain import PlainWay
from oncegate_spark.writers.staged import StagedWay

ID_TYPES = {"string", "binary", "byte", "short", "integer", "long", "char", "varchar"}


class Way(Protocol):
    """Made on the driver, pickled into every task, and made again for `commit`."""

    def write(self, batches: Iterator[pa.RecordBatch], token: str, task: Task) -> Any:
        """In a task: write the partition; the message for `commit`."""

    def commit(self, messages: Sequence[Any], batch_id: int | None) -> None:
        """On the driver: every task has succeeded once. `batch_id`: None for df.write."""

    def abort(self, messages: Sequence[Any]) -> None:
        """On the driver, perhaps after a commit that did take effect."""


def way_of(options: Options, read: Input | None) -> Way:
    """`read`: the input of the batch that begins, as the streaming writer found it."""
    ways: dict[str, Any] = {"staged": StagedWay, "claim": ClaimWay, "plain": PlainWay}
    way: Way = ways[options.write](options, read)
    return way


def check_schema(options: Options, schema: Any) -> None:
    """On the driver: every id column exists and is of a type that can be an id. Raises BadId with the line to write."""
    if options.write != "claim":
        return
    types = {field.name: field.dataType.typeName() for field in schema.fields}
    for name in options.id_names:
        if name not in types:
            raise BadId(f"idCol names {name}, and the rows have {', '.join(types)}; nothing was written")
        if types[name] not in ID_TYPES:
            raise BadId(f"id column {name} is of type {types[name]}: {codecs.cast_line(name)}; nothing was written")
