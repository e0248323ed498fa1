"""Plans the conversion of rows to Kafka records on the driver, with the same columns as Spark's own Kafka sink.

The option `topic` takes precedence over the column, as in that sink. In the gateway the column does, so it is not sent
then. Other columns, which that sink drops silently, are rejected unless the write itself needs them.
"""

from typing import Any

from oncegate_spark.errors import NOTHING, BadOption, Refused
from oncegate_spark.spark.options import Options
from oncegate_spark.spark.options.column_names import found, quoted
from oncegate_spark.spark.options.sink import TOPIC_COLUMN
from oncegate_spark.spark.writers.columns.fitting import Fit
from oncegate_spark.spark.writers.columns.planning import arrow_schema

# The columns of a record with their types; the first is the one to cast to.
TYPES = {
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "headers": ("array<struct<key:string,value:binary>>",),
    "topic": ("string",),
    "partition": ("int",),
    "timestamp": ("timestamp", "timestamp_ntz"),
}
_ALL = 'F.to_json(F.struct("*")).alias("value")'


def records(options: Options, schema: Any) -> Fit:
    """Returns the conversion for the tasks.

    Raises BadOption for options without effect on records, and Refused, with the line to write, for unsuitable columns.
    """
    _check_options(options)
    _check_columns(options, schema)
    columns = arrow_schema(schema)
    assert columns is not None, "Arrow has every type that a record, an id or a payload may have"
    decided, used = not options.by_row, _used(options)
    aside = _free_name(columns.names)
    sent, used_up = [], []
    for number, field in enumerate(columns):
        if decided and field.name == TOPIC_COLUMN:
            if field.name not in used:
                continue
            # Under its own name the gateway would send each row to the topic that it was read from.
            field = field.with_name(aside)
        sent.append((number, field))
        if options.lane_names is not None and columns.names[number] == options.lane_names[0]:
            used_up += [] if field.name in TYPES else [field.name]
    return Fit(tuple(sent), used_up=tuple(used_up))


def _check_options(options: Options) -> None:
    if options.key_names:
        raise BadOption(
            "keyCol has no effect on Kafka topics, where the columns key and partition choose the partition: write "
            f'.withColumn("key", …) instead{NOTHING}'
        )
    if options.merges:
        raise BadOption(f"mergeSchema has no effect on Kafka topics: the columns of records are fixed{NOTHING}")
    if options.by_row and options.write == "ids" and options.lane_names is None and options.id_set is None:
        raise BadOption(
            "by default the dedup scope of an id is its topic, and here each row names its own topic; add "
            f'.option("idSet", "<a name for all of them>"), or .option("topic", "<topic>"){NOTHING}'
        )


def _check_columns(options: Options, schema: Any) -> None:
    kinds = {field.name: field.dataType.simpleString() for field in schema.fields}
    used = _used(options)
    if strange := [name for name in kinds if name not in TYPES and name not in used]:
        raise Refused(
            f"{', '.join(strange)}: not a column of a Kafka record, which has {', '.join(TYPES)}: write "
            f"{_select(kinds, used)}{NOTHING}",
            code="SCHEMA",
        )
    if "value" not in kinds:
        raise Refused(f"required column 'value' not found: write df.select({_ALL}){NOTHING}", code="SCHEMA")
    for name, kind in kinds.items():
        is_sent = name in TYPES and not (name == TOPIC_COLUMN and not options.by_row)
        if is_sent and kind not in TYPES[name]:
            raise Refused(
                f"column {name} is of type {kind}, and must be {' or '.join(TYPES[name])}: write "
                f'df.withColumn("{name}", F.col("{name}").cast("{TYPES[name][0]}")){NOTHING}',
                code="SCHEMA",
            )


def _select(kinds: dict[str, str], used: set[str]) -> str:
    """Returns a `select` of a record's columns and those that the write needs; without `value`, all
    in one JSON value.
    """
    kept = [quoted(name) for name in kinds if name in TYPES or name in used]
    return f"df.select({', '.join([*kept, *([] if 'value' in kinds else [_ALL])])})"


def _used(options: Options) -> set[str]:
    """Returns the columns that the write needs, whether or not a record has them."""
    return {*options.id_names, *options.digest_names, *(options.lane_names or ())}


def _free_name(names: list[str]) -> str:
    name = "topic_of_row"
    while found(name, names) is not None:
        name += "_"
    return name
