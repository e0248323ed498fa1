"""The writers of `format("oncegate")`: each a `Writer`, chosen by the option `write`."""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import pyarrow as pa

from oncegate_spark.errors import BadId, BadOption
from oncegate_spark.protocol import codecs
from oncegate_spark.protocol.payloads import text_line
from oncegate_spark.spark.checkpoint import Input
from oncegate_spark.spark.options import Options
from oncegate_spark.spark.options.table import BY_ID
from oncegate_spark.spark.task_identity import Task
from oncegate_spark.spark.writers.claim import ClaimWriter
from oncegate_spark.spark.writers.ids import IdsWriter
from oncegate_spark.spark.writers.plain import PlainWriter
from oncegate_spark.spark.writers.staged import StagedWriter
from oncegate_spark.spark.writers.types import check_types

ID_TYPES = {"string", "binary", "byte", "short", "integer", "long", "char", "varchar"}


class Writer(Protocol):
    """Made on the driver, pickled into every task, and made again for `commit`."""

    def write(self, batches: Iterator[pa.RecordBatch], token: str, task: Task) -> Any:
        """In a task: write the partition; the message for `commit`."""

    def commit(self, messages: Sequence[Any], batch_id: int | None) -> None:
        """On the driver: every task has succeeded once. `batch_id`: None for df.write."""

    def abort(self, messages: Sequence[Any]) -> None:
        """On the driver, perhaps after a commit that did take effect."""


def writer_of(options: Options, read: Input | None) -> Writer:
    """Makes the writer that the options choose.

    `read`: the input of the batch that begins, as the streaming writer found it.
    """
    kinds: dict[str, Any] = {"staged": StagedWriter, "ids": IdsWriter, "claim": ClaimWriter, "plain": PlainWriter}
    writer: Writer = kinds[options.write](options, read)
    return writer


def check_schema(options: Options, schema: Any) -> None:
    """On the driver: every column can be written, every id column exists and can be an id, and every key column exists.

    Raises BadId and BadOption with the line to write.
    """
    if options.write in BY_ID:
        check_ids(options.id_names, schema, "idCol")
        check_lanes(options.lane_names, schema)
        check_payloads(options.digest_names, schema)
    check_types(schema, options.write != "claim")
    names = [field.name for field in schema.fields]
    for name in options.key_names:
        if name not in names:
            raise BadOption(f"keyCol names {name}, and the rows have {', '.join(names)}; nothing was written")


def check_lanes(lane_names: tuple[str, str] | None, schema: Any) -> None:
    """Raises BadId where the columns of producer and sequence are missing or of another type."""
    if lane_names is None:
        return
    types = {field.name: field.dataType.typeName() for field in schema.fields}
    wanted = (("producerCol", {"string"}, "string"), ("sequenceCol", {"byte", "short", "integer", "long"}, "bigint"))
    for name, (option, kinds, cast) in zip(lane_names, wanted, strict=True):
        if name not in types:
            raise BadId(f"{option} names {name}, and the rows have {', '.join(types)}; nothing was written")
        if types[name] not in kinds:
            raise BadId(
                f'{option} names {name}, which is of type {types[name]}; write df.withColumn("{name}", '
                f'F.col("{name}").cast("{cast}")); nothing was written'
            )


def check_payloads(names: Sequence[str], schema: Any) -> None:
    """Raises BadOption where a column of the payload is missing or of a type that payloads are not known by."""
    types = {field.name: field.dataType.typeName() for field in schema.fields}
    for name in names:
        if name not in types:
            raise BadOption(f"digestCols names {name}, and the rows have {', '.join(types)}; nothing was written")
        if types[name] not in ID_TYPES:
            raise BadOption(f"payload column {name} is of type {types[name]}: {text_line(name)}; nothing was written")


def check_ids(id_names: Sequence[str], schema: Any, argument: str) -> None:
    """Checks the names of columns that make an id.

    `argument`: what the user calls the list of names. Raises BadId.
    """
    types = {field.name: field.dataType.typeName() for field in schema.fields}
    for name in id_names:
        if name not in types:
            raise BadId(f"{argument} names {name}, and the rows have {', '.join(types)}; nothing was written")
        if types[name] not in ID_TYPES:
            raise BadId(f"id column {name} is of type {types[name]}: {codecs.cast_line(name)}; nothing was written")
