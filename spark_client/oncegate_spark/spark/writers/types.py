"""Refuses the types of Spark that no write can carry: on the driver, by the schema, before a task meets them."""

from collections.abc import Iterator
from typing import Any

from oncegate_spark.errors import BadOption

# pyarrow has no class for months as Arrow's interval, and so no Python task can be given rows that hold one.
UNREADABLE = {"yearmonthinterval"}
EMPTY = "struct<>"
COLLATED = " collate "  # in the name of a type of text that is not compared by its bytes


def check_types(schema: Any, is_written: bool) -> None:
    """Raises BadOption, with the line to write, for a column of a type that cannot be written, at whatever depth.

    `is_written`: the gateway keeps the rows. It takes no column of nulls alone (`void`) and no empty struct, and a
    topic knows no collation: read back, texts that were equal would not be.
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
    """Goes through the types that a type is made of, each with its path; an empty struct is one."""
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
