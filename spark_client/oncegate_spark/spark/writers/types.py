"""Rejects Spark types that cannot be written: on the driver, by the schema, before a task runs."""

from collections.abc import Iterator
from typing import Any

from oncegate_spark.errors import BadOption

# pyarrow has no class for Arrow's month interval, so no Python task can receive such rows.
UNREADABLE = {"yearmonthinterval"}
EMPTY = "struct<>"
COLLATED = " collate "  # part of the type name of a text that is not compared by its bytes


def check_types(schema: Any, is_written: bool) -> None:
    """Raises BadOption, with the line of code that fixes it, for a column of a type that cannot be written, at any
    depth.

    `is_written`: the gateway stores the rows. It accepts no column of nulls only (`void`) and no empty struct; and
    topics have no collations, so equal texts would differ when read back.
    """
    for field in schema.fields:
        for path, kind in _leaves(field.name, field.dataType):
            name = kind.simpleString()
            unkept = kind.typeName() == "void" or name == EMPTY or COLLATED in name
            if kind.typeName() in UNREADABLE or (is_written and unkept):
                line = f'df.withColumn("{path}", F.col("{path}").cast("string"))'
                whole = f'cast {field.name} to a type without it, or leave it out: df.drop("{field.name}")'
                raise BadOption(
                    f"column {path} is of type {name}, which cannot be written; "
                    f"{f'write {line}' if path == field.name and name != EMPTY else whole}; nothing was written"
                )


def _leaves(path: str, kind: Any) -> Iterator[tuple[str, Any]]:
    """Yields the leaf types of a type, each with its path; an empty struct is a leaf."""
    name = kind.typeName()
    if name == "struct" and kind.fields:
        for field in kind.fields:
            yield from _leaves(f"{path}.{field.name}", field.dataType)
    elif name == "array":
        yield from _leaves(f"{path}.element", kind.elementType)
    elif name == "map":
        yield from _leaves(f"{path}.key", kind.keyType)
        yield from _leaves(f"{path}.value", kind.valueType)
    else:
        yield path, kind
