"""Options of SQL tables, which Spark loses, and the statements to use instead.

Spark 4.3 passes the OPTIONS of a table to a Python data source only once, when a table without columns is created. They
are therefore stored in the metadata of the table's first column, which every read of it receives. Writes must not use
them: in `INSERT INTO b SELECT * FROM a` the columns may still have the options of `a`.
"""

import json
from collections.abc import Mapping
from typing import Any

from oncegate_spark.errors import BadOption

KEY = "oncegate.options"
PREFIX = "option."  # prefix of OPTIONS in a CREATE TABLE
TARGET = ("url", "namespace", "topic", "path")  # options that identify the source of a read
URL = ".format('oncegate').option('url', 'http://gateway:8080')"
VIEW = "CREATE TEMPORARY VIEW <name> (<column> <type>, …) USING oncegate OPTIONS (url '…', topic '…')"


def of_create_table(options: Mapping[str, str]) -> dict[str, str] | None:
    """Returns the OPTIONS of a CREATE TABLE; None for any other call. Raises BadOption for a LOCATION."""
    if "provider" not in options:
        return None
    if "location" in options:
        raise BadOption("a table over a topic has no LOCATION: set its OPTIONS (url '…', topic '…')")
    return {name.removeprefix(PREFIX): value for name, value in options.items() if name.startswith(PREFIX)}


def remembered(columns: Any, options: Mapping[str, str]) -> Any:
    """Stores a new table's options in the metadata of its first column."""
    from pyspark.sql.types import StructField, StructType

    first, *others = columns.fields
    metadata = {**first.metadata, KEY: json.dumps(dict(options))}
    return StructType([StructField(first.name, first.dataType, first.nullable, metadata), *others])


def of_a_read(options: Mapping[str, str], columns: Any) -> dict[str, str]:
    """Returns a read's options: those given, else those with which the table was created."""
    if not _says_nothing(options):
        return dict(options)
    kept = next((field.metadata[KEY] for field in columns.fields if KEY in field.metadata), "{}")
    return {**json.loads(kept), **options}


def bare(columns: Any) -> Any:
    """Removes the metadata of columns: Arrow schemas would carry it, and it does not belong to the rows."""
    from pyspark.sql.types import StructField, StructType

    return StructType([StructField(field.name, field.dataType, field.nullable) for field in columns.fields])


def check_read(options: Mapping[str, str]) -> None:
    """Raises BadOption if no option identifies the source, as for a table created with a list of columns."""
    if _says_nothing(options):
        raise BadOption(
            f"the source of the read is missing; write {URL}.load('<topic>'). For a table: Spark 4.3 keeps the OPTIONS "
            "of "
            "CREATE TABLE … USING oncegate OPTIONS (…) only without a list of columns, since columns come from the "
            f"topic; with one, write {VIEW}"
        )


def check_write(options: Mapping[str, str], is_stream: bool) -> None:
    """Raises BadOption if no option identifies the target, as for any table: Spark does not pass on its options."""
    if not _says_nothing(options):
        return
    if is_stream:
        line = f"{URL}.start('<topic>') in place of toTable"
    else:
        line = (
            f"{URL}.mode('append').save('<topic>') in place of insertInto, writeTo and saveAsTable; in SQL INSERT INTO "
            f"<table> WITH (url = '…', topic = '…') …, or INSERT INTO a view: {VIEW}"
        )
    raise BadOption(f"the target of the write is missing, and Spark 4.3 passes on no OPTIONS of a table; write {line}")


def _says_nothing(options: Mapping[str, str]) -> bool:
    return not any(name.lower() in TARGET for name in options)
