"""Fits the rows of a write to the columns of its topic, by name: what is planned on the driver, done in the tasks.

Another order of columns, a column that the rows leave out and a type that the topic's is wider than are mended; what
else differs is refused on the driver. A column that is left out is not sent: the gateway reads it back as null, and a
row is fingerprinted by what it brought, so that a replay equals its batch also when columns were added in between.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from oncegate_spark.errors import NOTHING, Refused
from oncegate_spark.spark.options import Options
from oncegate_spark.spark.task_identity import Task


@dataclass(frozen=True)
class Fit:
    """Says how rows become the topic's.

    columns  for each column that is sent, its place among the rows' and its field in the topic; None: as they come
    folded   names of the rows or of options, and the columns that they were taken for without regard to case
    used_up  columns that the task itself needs, and that are not sent
    """

    columns: tuple[tuple[int, pa.Field], ...] | None = None
    folded: tuple[tuple[str, str], ...] = ()
    used_up: tuple[str, ...] = ()

    def applied(self, batches: Iterable[pa.RecordBatch], task: Task) -> Iterator[pa.RecordBatch]:
        """In a task: its rows, fitted. Raises Refused before the first of them; nothing of them was sent."""
        if self.folded and task.is_case_sensitive:
            named = ", ".join(f"{ours} for {theirs}" for ours, theirs in self.folded)
            raise Refused(f"spark.sql.caseSensitive is true here, and this would take {named}: rename it{NOTHING}")
        schema = None if self.columns is None else pa.schema([field for _, field in self.columns])
        for batch in batches:
            yield batch if schema is None else self._fitted(batch, schema)

    def _fitted(self, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
        assert self.columns is not None
        arrays = [_converted(batch.column(index), field) for index, field in self.columns]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def renamed(self, options: Options, names: Iterable[str]) -> Options:
        """The options with columns named as the topic names them. `names`: of the rows' columns, in their order."""
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
            f"column {field.name} is {column.type} and {field.type} in the topic: {error}{NOTHING}"
        ) from error
    if _has_forbidden_null(made):
        raise Refused(f"column {field.name} has a null where the topic's {field.type} takes none{NOTHING}")
    return made


def _has_forbidden_null(array: pa.Array) -> bool:
    """Whether a part inside of a column is null that its type says is not; Arrow's cast does not look."""
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
    """The fields of a struct, in the rows where it is not null itself."""
    there = array.drop_null() if array.null_count else array
    return list(there.flatten())
