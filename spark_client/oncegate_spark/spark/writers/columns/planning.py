"""Plans the conversion of a write's rows to its topic on the driver, or raises with their differences.

A topic's Arrow type accepts any type whose values it represents exactly. This is stricter than Spark's store
assignment, which may overflow at run time, and than its up-cast, which rounds bigint to double.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_type
from pyspark.sql.types import StructType

from oncegate_spark.errors import NOTHING, Refused
from oncegate_spark.protocol.answers import Topic
from oncegate_spark.spark import logs
from oncegate_spark.spark.options.column_names import paired, quoted
from oncegate_spark.spark.writers.columns.fitting import AS_THEY_COME, Fit

_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}
_WHOLE_IN_FLOAT = {pa.float32(): 16, pa.float64(): 32}  # widest integer that such a float represents exactly


def widens(ours: pa.DataType, theirs: pa.DataType) -> bool:
    """True if `theirs` represents all values of `ours`, inside structs, lists and maps too.

    Struct fields are compared by name; a missing one must be nullable.
    """
    if pa.types.is_struct(ours) and pa.types.is_struct(theirs):
        return _struct_widens(ours, theirs)
    if pa.types.is_map(ours) and pa.types.is_map(theirs):
        return widens(ours.key_type, theirs.key_type) and widens(ours.item_type, theirs.item_type)
    if _is_list(ours) and _is_list(theirs):
        return widens(ours.value_type, theirs.value_type)
    return ours == theirs or _same_layout_aside(ours, theirs) or _number_widens(ours, theirs)


def nullable_inside(kind: pa.DataType) -> pa.DataType:
    """Returns the type with everything inside nullable, since nullability in a plan is not stable.

    Keeps the metadata of struct fields, the only distinction of VARIANT and GEOMETRY from a struct.
    """
    if pa.types.is_struct(kind):
        fields = kind.fields
        return pa.struct(
            [pa.field(field.name, nullable_inside(field.type), metadata=field.metadata) for field in fields]
        )
    if pa.types.is_map(kind):
        return pa.map_(nullable_inside(kind.key_type), nullable_inside(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(pa.field(kind.value_field.name, nullable_inside(kind.value_type)))
    return kind


def _struct_widens(ours: pa.DataType, theirs: pa.DataType) -> bool:
    their_fields = {field.name: field for field in theirs.fields}
    our_fields = {field.name: field for field in ours.fields}
    if len(our_fields) != len(ours.fields) or not our_fields.keys() <= their_fields.keys():
        return False
    left_out = [field for name, field in their_fields.items() if name not in our_fields]
    return all(field.nullable for field in left_out) and all(
        widens(field.type, their_fields[name].type) for name, field in our_fields.items()
    )


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _same_layout_aside(ours: pa.DataType, theirs: pa.DataType) -> bool:
    """True for types that differ only in layout: 32 or 64-bit offsets, or the displayed time zone of instants."""
    types = pa.types
    for is_small, other in ((types.is_string, types.is_large_string), (types.is_binary, types.is_large_binary)):
        if is_small(ours) or other(ours):
            return bool(is_small(theirs) or other(theirs))
    both_times = types.is_timestamp(ours) and types.is_timestamp(theirs)
    return bool(both_times and ours.unit == theirs.unit and (ours.tz is None) == (theirs.tz is None))


def _number_widens(ours: pa.DataType, theirs: pa.DataType) -> bool:
    types = pa.types
    if types.is_signed_integer(ours):
        if types.is_decimal(theirs):
            return bool(theirs.scale >= 0 and theirs.precision - theirs.scale >= _DIGITS[ours.bit_width])
        if types.is_signed_integer(theirs):
            return bool(ours.bit_width <= theirs.bit_width)
        return bool(ours.bit_width <= _WHOLE_IN_FLOAT.get(theirs, 0))
    if types.is_decimal(ours) and types.is_decimal(theirs):
        whole = ours.precision - ours.scale <= theirs.precision - theirs.scale
        return bool(whole and ours.scale <= theirs.scale)
    return bool(ours == pa.float32() and theirs == pa.float64())


log = logging.getLogger("oncegate_spark")


@dataclass(frozen=True)
class Plan:
    """Comparison of rows with their topic.

    pairs     for each column of the topic that the rows have, in the topic's order: its name in the rows
    narrower  those of them whose type in the topic is too narrow
    strange   columns of the rows that the topic does not have
    """

    ours: pa.Schema
    theirs: pa.Schema
    pairs: dict[str, str]
    narrower: tuple[str, ...]
    strange: tuple[str, ...]

    @classmethod
    def of(cls, ours: pa.Schema, theirs: pa.Schema) -> "Plan":
        """Compares columns by name; names are unique on either side."""
        by_topic = paired(ours.names, theirs.names)
        pairs = {name: by_topic[name] for name in theirs.names if name in by_topic}
        narrower = [
            name for name, column in pairs.items() if not widens(ours.field(column).type, theirs.field(name).type)
        ]
        strange = [name for name in ours.names if name not in pairs.values()]
        return cls(ours, theirs, pairs, tuple(narrower), tuple(strange))

    @property
    def fit(self) -> Fit:
        """Returns the conversion for the tasks."""
        indexes = {name: index for index, name in enumerate(self.ours.names)}
        columns = tuple((indexes[column], self.theirs.field(name)) for name, column in self.pairs.items())
        return Fit(columns, tuple((column, name) for name, column in self.pairs.items() if name != column))

    @property
    def retyped(self) -> tuple[str, ...]:
        """Columns that Spark reads back as a different type, with both types; Arrow has one type for both, for
        instance for VARIANT.
        """
        pairs = [
            (column, self.ours.field(column).type, self.theirs.field(name).type) for name, column in self.pairs.items()
        ]
        named = [(column, _spark_name(mine), _spark_name(kind)) for column, mine, kind in pairs if mine == kind]
        return tuple(f"{column} is {mine} here and {kind} there" for column, mine, kind in named if mine != kind)

    def check(self, topic: str) -> None:
        """Raises Refused, with the differences and a `select` that resolves them, unless the rows fit."""
        if not self.strange and not self.narrower:
            return
        raise Refused(
            f"the rows do not fit topic {topic} (fix): {self._difference()}: {self._ways()}{NOTHING}", code="SCHEMA"
        )

    def _difference(self) -> str:
        differences = [f"the topic has no {', '.join(self.strange)}"] if self.strange else []
        kinds = ((name, self.ours.field(self.pairs[name]).type, self.theirs.field(name).type) for name in self.narrower)
        return "; ".join([*differences, *(f"{name} is {mine} and {kind} there" for name, mine, kind in kinds)])

    def _ways(self) -> str:
        ways = []
        chosen = self._select()
        if chosen is not None:
            ways.append(f"write {chosen}")
        if self.strange:
            ways.append('add the columns with .option("mergeSchema", "true")')
        return "; or ".join([*ways, "use a new topic"])

    def _select(self) -> str | None:
        """Returns a `select` that makes the rows fit; None if no cast does: a cast of a struct goes by position, not by
        name.
        """
        if any(pa.types.is_nested(self.theirs.field(name).type) for name in self.narrower) or not self.pairs:
            return None
        columns = []
        for name, column in self.pairs.items():
            kind = _spark_name(self.theirs.field(name).type) if name in self.narrower else None
            if name in self.narrower and kind is None:
                return None
            columns.append(quoted(column) if kind is None else f'F.col({quoted(column)}).cast("{kind}")')
        return f"df.select({', '.join(columns)})"


def arrow_schema(schema: StructType) -> pa.Schema | None:
    """Returns the rows' columns as Spark will send them, nullable inside; None if Arrow has no type for a column.

    Instants use UTC instead of the session's time zone, so that a topic does not depend on the first writer's zone.
    """
    try:
        kinds = [(field.name, to_arrow_type(field.dataType, timezone="UTC")) for field in schema.fields]
    except PySparkException:
        return None
    return pa.schema([(name, nullable_inside(kind)) for name, kind in kinds])


def planned(topic: Topic | None, schema: StructType, name: str) -> Fit:
    """Returns the conversion of rows to a topic, which may not exist yet. Raises Refused if they do not fit."""
    ours = arrow_schema(schema)
    if ours is None:
        return AS_THEY_COME
    if topic is None or topic.schema is None:
        return Fit(tuple(enumerate(ours)))
    plan = Plan.of(ours, topic.schema)
    plan.check(name)
    if plan.retyped:
        logs.be_heard()
        log.warning(
            "topic %s returns columns as another type: %s; write them to a new topic", name, ", ".join(plan.retyped)
        )
    return plan.fit


def added(topic: Topic, schema: StructType) -> pa.Schema | None:
    """Returns the columns that mergeSchema adds to a topic; None for none. Raises Refused if another column does not
    fit.
    """
    ours = arrow_schema(schema)
    if ours is None or topic.schema is None:
        return None
    plan = Plan.of(ours, topic.schema)
    replace(plan, strange=()).check(topic.name)
    return pa.schema([ours.field(name) for name in plan.strange]) if plan.strange else None


def _spark_name(kind: pa.DataType) -> str | None:
    try:
        return str(from_arrow_type(kind).simpleString())
    except PySparkException:
        return None


def least_size(schema: Any) -> tuple[int, int]:
    """Returns the number of columns, including nested ones, and the minimum size of a row in bytes.

    Zeros if Arrow has no type for a column. Text, binary, lists and maps may be empty.
    """
    columns = arrow_schema(schema)
    sizes = [_least(field.type) for field in columns or ()]
    return sum(leaves for leaves, _ in sizes), sum(size for _, size in sizes)


def check_size(columns: int, size_bytes: int, limits: Mapping[str, Any]) -> None:
    """Raises Refused if the gateway's limits allow no such row. `limits`: of GET /v1/limits."""
    columns_max, bytes_max = limits["columns_per_request"], limits["record_bytes"]
    if columns > columns_max:
        raise Refused(
            f"the rows have {columns} columns, including nested ones, and the gateway's limit is {columns_max}: "
            f"combine some in a map or a text, or raise columns_per_request there{NOTHING}",
            code="TOO_LARGE",
        )
    if size_bytes > bytes_max:
        raise Refused(
            f"each row takes at least {size_bytes} bytes by its types, and the gateway's limit is {bytes_max} a "
            "record: "
            f"omit columns, or raise record_bytes there{NOTHING}",
            code="TOO_LARGE",
        )


def _least(kind: pa.DataType) -> tuple[int, int]:
    if pa.types.is_struct(kind):
        inside = [_least(field.type) for field in kind.fields]
        return sum(leaves for leaves, _ in inside), sum(size for _, size in inside)
    if pa.types.is_map(kind):
        return _least(kind.key_type)[0] + _least(kind.item_type)[0], 0
    if pa.types.is_list(kind):
        return _least(kind.value_type)[0], 0
    try:
        return 1, -(-kind.bit_width // 8)
    except ValueError:  # not of fixed width
        return 1, 0
