"""What Spark's SQL does with the options of a table, and the lines to write where it loses them.

Spark 4.3 asks a Python data source for the columns when a table is made without any, and hands it the table's OPTIONS
then and never again. So they travel in the metadata of the table's first column, which every read of it is given. No
write may take them from there: in `INSERT INTO b SELECT * FROM a` the columns may still carry what `a` is.
"""

import json
from collections.abc import Mapping
from typing import Any

from oncegate_spark.errors import BadOption

KEY = "oncegate.options"
PREFIX = "option."  # how CREATE TABLE hands over what stands in OPTIONS
TARGET = ("url", "namespace", "topic", "path")  # whoever gives one of them says where to read
URL = ".format('oncegate').option('url', 'http://gateway:8080')"
VIEW = "CREATE TEMPORARY VIEW <name> (<column> <type>, …) USING oncegate OPTIONS (url '…', topic '…')"


def of_create_table(options: Mapping[str, str]) -> dict[str, str] | None:
    """The OPTIONS of a CREATE TABLE, None for any other call. Raises BadOption for a LOCATION."""
    if "provider" not in options:
        return None
    if "location" in options:
        raise BadOption("a table over a topic has no LOCATION: its OPTIONS (url '…', topic '…') say where the rows are")
    return {name.removeprefix(PREFIX): value for name, value in options.items() if name.startswith(PREFIX)}


def remembered(columns: Any, options: Mapping[str, str]) -> Any:
    """The columns of a table that is made, the first of which carries its options."""
    from pyspark.sql.types import StructField, StructType

    first, *others = columns.fields
    metadata = {**first.metadata, KEY: json.dumps(dict(options))}
    return StructType([StructField(first.name, first.dataType, first.nullable, metadata), *others])


def of_a_read(options: Mapping[str, str], columns: Any) -> dict[str, str]:
    """A read's options: those given, and of a table those that it was made with."""
    if not _says_nothing(options):
        return dict(options)
    kept = next((field.metadata[KEY] for field in columns.fields if KEY in field.metadata), "{}")
    return {**json.loads(kept), **options}


def bare(columns: Any) -> Any:
    """The columns without metadata: Arrow's layout carries it, and it is no part of the rows."""
    from pyspark.sql.types import StructField, StructType

    return StructType([StructField(field.name, field.dataType, field.nullable) for field in columns.fields])


def check_read(options: Mapping[str, str]) -> None:
    """Raises BadOption where nothing says what to read, as it is of a table that was made with a list of columns."""
    if _says_nothing(options):
        raise BadOption(
            f"nothing says where to read; write {URL}.load('<topic>'). Of a table: Spark 4.3 keeps the OPTIONS of "
            "CREATE TABLE … USING oncegate OPTIONS (…) only where it has no list of columns, since they come from the "
            f"topic; with one, write {VIEW}"
        )


def check_write(options: Mapping[str, str], is_stream: bool) -> None:
    """Raises BadOption where nothing says what to write to, as it is of any table: Spark hands on no options of it."""
    if not _says_nothing(options):
        return
    if is_stream:
        line = f"{URL}.start('<topic>') in place of toTable"
    else:
        line = (
            f"{URL}.mode('append').save('<topic>') in place of insertInto, writeTo and saveAsTable; in SQL INSERT INTO "
            f"<table> WITH (url = '…', topic = '…') …, or INSERT INTO a view: {VIEW}"
        )
    raise BadOption(f"nothing says where to write, and Spark 4.3 hands on no OPTIONS of a table; write {line}")


def _says_nothing(options: Mapping[str, str]) -> bool:
    return not any(name.lower() in TARGET for name in options)
