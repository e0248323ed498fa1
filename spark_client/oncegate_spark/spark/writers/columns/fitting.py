"""Converts the rows of a write to the columns of its topic, by name: planned on the driver, applied in the tasks.

Handles columns in another order, omitted columns, and types that the topic's type widens; other differences are
rejected on the driver. An omitted column is not sent, and reads back as null. The gateway fingerprints only the columns
sent, so a replay equals its batch even if columns were added in between.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from oncegate_spark.errors import NOTHING, Refused
from oncegate_spark.spark.options import Options
from oncegate_spark.spark.task_identity import Task


@dataclass(frozen=True)
class Fit:
    """Conversion of rows to the topic's columns.

    columns  for each column sent, its index in the rows and its field in the topic; None: rows are sent unchanged
    folded   names in rows or options, with the columns that they match only case-insensitively
    used_up  columns that only the task needs, and that are not sent
    """

    columns: tuple[tuple[int, pa.Field], ...] | None = None
    folded: tuple[tuple[str, str], ...] = ()
    used_up: tuple[str, ...] = ()

    def applied(self, batches: Iterable[pa.RecordBatch], task: Task) -> Iterator[pa.RecordBatch]:
        """In a task: yields its rows, converted. Raises Refused before the first row; nothing was sent."""
        if self.folded and task.is_case_sensitive:
            named = ", ".join(f"{ours} for {theirs}" for ours, theirs in self.folded)
            raise Refused(f"spark.sql.caseSensitive is true here, so {named} would not match: rename it{NOTHING}")
        schema = None if self.columns is None else pa.schema([field for _, field in self.columns])
        for batch in batches:
            yield batch if schema is None else self._fitted(batch, schema)

    def _fitted(self, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
        assert self.columns is not None
        arrays = [_converted(batch.column(index), field) for index, field in self.columns]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def renamed(self, options: Options, names: Iterable[str]) -> Options:
        """Returns the options with the topic's column names. `names`: of the rows' columns, in order."""
        if self.columns is None:
            return options
        columns = list(names)
        topic = {columns[index]: field.name for index, field in self.columns}
        lanes = options.lane_names
        return replace(
            options,
            id_names=tuple(topic[name] for name in options.id_names),
            digest_names=tuple(topic[name] for name in options.digest_names),
            key_names=tuple(topic[name] for name in options.key_names),
            lane_names=None if lanes is None else (topic[lanes[0]], topic[lanes[1]]),
        )


AS_THEY_COME = Fit()


def _converted(column: pa.Array, field: pa.Field) -> pa.Array:
    if column.type == field.type:
        return column
    try:
        made = column.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise Refused(
            f"column {field.name} is {column.type} in the rows and {field.type} in the topic: {error}{NOTHING}"
        ) from error
    if _has_forbidden_null(made):
        raise Refused(f"column {field.name} has a null where the topic's {field.type} allows none{NOTHING}")
    return made


def _has_forbidden_null(array: pa.Array) -> bool:
    """True if a nested value is null although its type forbids it, which Arrow's cast does not check."""
    kind = array.type
    if pa.types.is_struct(kind):
        inside = list(zip(kind.fields, _under(array), strict=True))
    elif pa.types.is_map(kind):
        inside = [(kind.item_field, array.items)]
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        inside = [(kind.value_field, array.flatten())]
    else:
        return False
    return any((part.null_count and not field.nullable) or _has_forbidden_null(part) for field, part in inside)


def _under(array: pa.StructArray) -> list[pa.Array]:
    """Returns the fields of a struct, for the rows where the struct is not null."""
    there = array.drop_null() if array.null_count else array
    return list(there.flatten())
