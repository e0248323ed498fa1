"""Writers of `format("oncegate")`, one per write mode, and the checks of a write's schema."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Protocol

import pyarrow as pa

from oncegate_spark.errors import BadId, BadOption
from oncegate_spark.spark.checkpoint import BatchInput
from oncegate_spark.spark.options import Options
from oncegate_spark.spark.options.advice import cast_line, text_line
from oncegate_spark.spark.options.column_names import found, resolved
from oncegate_spark.spark.options.table import BY_ID
from oncegate_spark.spark.task_identity import Task
from oncegate_spark.spark.writers.claim import ClaimWriter
from oncegate_spark.spark.writers.columns.fitting import AS_THEY_COME, Fit
from oncegate_spark.spark.writers.direct.writer import DirectRowsWriter
from oncegate_spark.spark.writers.ids import IdsWriter
from oncegate_spark.spark.writers.plain import PlainWriter
from oncegate_spark.spark.writers.staged import StagedWriter
from oncegate_spark.spark.writers.types import COLLATED, check_types

WHOLE = {"byte", "short", "integer", "long"}
ID_TYPES = {"string", "binary", "char", "varchar", "decimal", "date", "timestamp", "timestamp_ntz", *WHOLE}


class Writer(Protocol):
    """Writer of one write mode: created on the driver, pickled into every task, and created again for `commit`."""

    def write(self, batches: Iterator[pa.RecordBatch], token: str, task: Task) -> Any:
        """In a task: writes the partition; returns the message for `commit`."""

    def commit(self, messages: Sequence[Any], batch_id: int | None) -> None:
        """On the driver, after every task succeeded once. `batch_id`: None for df.write."""

    def abort(self, messages: Sequence[Any]) -> None:
        """On the driver, after a failure; possibly after a commit that took effect."""


def writer_of(options: Options, read: BatchInput | None, fit: Fit = AS_THEY_COME) -> Writer:
    """Returns the writer for the options.

    `read`: input of the batch that begins, read by the streaming writer. `fit`: conversion of its rows.
    """
    kinds: dict[str, Any] = {"staged": StagedWriter, "ids": IdsWriter, "claim": ClaimWriter, "plain": PlainWriter}
    kinds["direct"] = DirectRowsWriter
    writer: Writer = kinds[options.write](options, read, fit)
    return writer


def check_schema(chosen: Options, schema: Any) -> Options:
    """On the driver: checks the columns' types, and that id, payload, lane and key columns exist.

    Returns the options with the columns' actual names, which may differ in case. Raises BadId and BadOption with the
    line to write.
    """
    names = [field.name for field in schema.fields]
    if not names:
        raise BadOption(
            "the rows have no columns, so nothing could be stored or recognised: add columns; nothing was written"
        )
    lanes = chosen.lane_names
    options = replace(
        chosen,
        id_names=resolved(chosen.id_names, names),
        digest_names=resolved(chosen.digest_names, names),
        key_names=resolved(chosen.key_names, names),
        lane_names=None if lanes is None else (found(lanes[0], names) or lanes[0], found(lanes[1], names) or lanes[1]),
    )
    if options.write in BY_ID:
        check_ids(options.id_names, schema, "idCol")
        check_payloads(options.digest_names, schema)
    check_lanes(options.lane_names, schema)
    check_types(schema, options.write != "claim")
    for name in options.key_names:
        if name not in names:
            raise BadOption(f"keyCol names {name}, and the rows have {', '.join(names)}; nothing was written")
    return options


def check_lanes(lane_names: tuple[str, str] | None, schema: Any) -> None:
    """Raises BadId if the columns of producer and sequence are missing or of a wrong type."""
    if lane_names is None:
        return
    types = {field.name: field.dataType.typeName() for field in schema.fields}
    wanted = (("producerCol", {"string"}, "string"), ("sequenceCol", WHOLE, "bigint"))
    for name, (option, kinds, cast) in zip(lane_names, wanted, strict=True):
        if name not in types:
            raise BadId(f"{option} names {name}, and the rows have {', '.join(types)}; nothing was written")
        if types[name] not in kinds:
            raise BadId(
                f'{option} names {name}, which is of type {types[name]}; write df.withColumn("{name}", '
                f'F.col("{name}").cast("{cast}")); nothing was written'
            )


def check_payloads(names: Sequence[str], schema: Any) -> None:
    """Raises BadOption if a payload column is missing or its type cannot be a payload."""
    types = {field.name: field.dataType.typeName() for field in schema.fields}
    for name in names:
        if name not in types:
            raise BadOption(f"digestCols names {name}, and the rows have {', '.join(types)}; nothing was written")
        _check_collation(name, schema, text_line(name))
        if types[name] not in ID_TYPES:
            raise BadOption(f"payload column {name} is of type {types[name]}: {text_line(name)}; nothing was written")


def check_ids(id_names: Sequence[str], schema: Any, argument: str) -> None:
    """Raises BadId if an id column is missing or its type cannot be an id. `argument`: the option or parameter that
    names them.
    """
    types = {field.name: field.dataType.typeName() for field in schema.fields}
    for name in id_names:
        if name not in types:
            raise BadId(f"{argument} names {name}, and the rows have {', '.join(types)}; nothing was written")
        _check_collation(name, schema, cast_line(name))
        if types[name] not in ID_TYPES:
            raise BadId(f"id column {name} is of type {types[name]}: {cast_line(name)}; nothing was written")


def _check_collation(name: str, schema: Any, line: str) -> None:
    """Raises BadId for a collated column: its equal texts may differ in their bytes, which the gateway compares."""
    kind = schema[name].dataType.simpleString()
    if COLLATED in kind:
        raise BadId(
            f"column {name} is of type {kind}, for which different bytes are equal: {line}; nothing was written"
        )
