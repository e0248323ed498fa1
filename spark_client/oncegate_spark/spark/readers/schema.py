"""Converts a topic's columns to Spark's types, and its rows to the exact layout that Spark requires."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from oncegate_spark.errors import BadOption, Refused
from oncegate_spark.spark.readers.options import ReadOptions

PARTITION, OFFSET = "_partition", "_offset"
COORDINATES = StructType([StructField(PARTITION, IntegerType()), StructField(OFFSET, LongType())])


def columns_of(topic: pa.Schema, options: ReadOptions) -> StructType:
    """Returns the columns of a read: the topic's, or those that the option names, with the coordinates if requested.

    Raises BadOption for a column that does not exist, or whose type Spark does not have.
    """
    names = topic.names if options.columns is None else options.columns
    missing = [name for name in names if name not in topic.names]
    if missing:
        raise BadOption(f"columns has {', '.join(missing)}; topic {options.topic} has {', '.join(topic.names)}")
    fields = [StructField(name, _spark_type(topic.field(name), options.topic)) for name in names]
    if not options.include_offsets:
        return StructType(fields)
    taken = [name for name in (PARTITION, OFFSET) if name in topic.names]
    if taken:
        raise BadOption(f"topic {options.topic} has a column {taken[0]} of its own: includeOffsets cannot add one")
    return StructType(fields + COORDINATES.fields)


def check_wanted(wanted: StructType, topic: pa.Schema, options: ReadOptions) -> None:
    """Raises BadOption unless the topic has each wanted column, by name and type."""
    types = {field.name: field.dataType.simpleString() for field in columns_of(topic, options).fields}
    for field in wanted.fields:
        wanted_type = field.dataType.simpleString()
        if field.name not in types:
            raise BadOption(f"the schema has {field.name}; a read of topic {options.topic} has {', '.join(types)}")
        if types[field.name] != wanted_type:
            raise BadOption(
                f"the schema has {field.name} as {wanted_type}, and it is {types[field.name]}: cast it after reading"
            )


def asked_for(wanted: StructType, topic: pa.Schema) -> tuple[str, ...] | None:
    """Returns the topic's columns that a read needs; None for all. At least one, which carries the number of rows."""
    names = tuple(name for name in wanted.names if name in topic.names) or (topic.names[0],)
    return None if len(names) == len(topic.names) or any("," in name for name in names) else names


def layout(wanted: StructType) -> pa.Schema:
    """Returns the Arrow schema that Spark requires for rows of this schema, including every nullability flag."""
    schema: pa.Schema = to_arrow_schema(wanted, timezone="UTC")
    return schema


def laid_out(rows: pa.Table, target: pa.Schema, partition: int, first_offset: int) -> pa.Table:
    """Converts `rows`, whose offsets in `partition` count up from `first_offset`, to the layout `target`."""
    return pa.Table.from_arrays([_column(rows, field, partition, first_offset) for field in target], schema=target)


def _column(rows: pa.Table, field: pa.Field, partition: int, first_offset: int) -> Any:
    if field.name == PARTITION and PARTITION not in rows.column_names:
        return pa.repeat(pa.scalar(partition, field.type), rows.num_rows)
    if field.name == OFFSET and OFFSET not in rows.column_names:
        return pa.array(range(first_offset, first_offset + rows.num_rows), field.type)
    column = rows.column(field.name)
    if column.type == field.type:
        return column
    try:
        return pa.chunked_array([_flagged(chunk, field.type) for chunk in column.chunks], field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise Refused(
            f"column {field.name} is {column.type} in the topic, which Spark's {field.type} cannot represent: {error}; "
            'omit it with .option("columns", …)'
        ) from error


def _flagged(array: pa.Array, kind: pa.DataType) -> Any:
    """Converts an array to this type, including nullability.

    Members of a null struct are null, even those that Spark declares not null: each VARIANT is a struct of two such
    members. Raises ArrowInvalid if such a member is null in a struct that is not.
    """
    if pa.types.is_struct(kind) and pa.types.is_struct(array.type):
        members = [_member(array, array.field(field.name), field) for field in kind]
        return pa.StructArray.from_arrays(members, fields=kind.fields, mask=array.is_null())
    if not (pa.types.is_list(kind) and pa.types.is_list(array.type)) and not pa.types.is_map(kind):
        return array.cast(kind)
    first, last = array.offsets[0].as_py(), array.offsets[-1].as_py()
    ends, nulls = pc.subtract(array.offsets, first), array.is_null()
    if pa.types.is_map(kind):
        keys, items = array.keys[first:last].cast(kind.key_type), _flagged(array.items[first:last], kind.item_type)
        return pa.MapArray.from_arrays(ends, keys, items, type=kind, mask=nulls)
    return pa.ListArray.from_arrays(ends, _flagged(array.values[first:last], kind.value_type), type=kind, mask=nulls)


def _member(whole: pa.StructArray, member: pa.Array, field: pa.Field) -> Any:
    flagged = _flagged(member, field.type)
    if field.nullable or not flagged.null_count:
        return flagged
    if pc.any(pc.and_(flagged.is_null(), whole.is_valid())).as_py():
        raise pa.ArrowInvalid(f"its member {field.name} is null")
    return pc.fill_null(flagged, pa.scalar(b"" if pa.types.is_binary(field.type) else 0, field.type))


def _spark_type(field: pa.Field, topic: str) -> Any:
    try:
        return from_arrow_type(field.type)
    except PySparkException as error:
        raise BadOption(
            f"column {field.name} of topic {topic} is {field.type}, for which Spark has no type; "
            'select the others with .option("columns", "<column>[,<column>]")'
        ) from error
