"""Plans on the driver how rows become records of Kafka's topics, by the contract of Spark's own Kafka sink.

The option `topic` goes before the column, as there; the gateway lets the column decide, so it is not sent then. What
that sink drops unsaid, a column that no record has, is refused: but for those that the write itself needs.
"""

from typing import Any

from oncegate_spark.errors import NOTHING, BadOption, Refused
from oncegate_spark.spark.options import Options
from oncegate_spark.spark.options.column_names import found, quoted
from oncegate_spark.spark.options.sink import TOPIC_COLUMN
from oncegate_spark.spark.writers.columns.fitting import Fit
from oncegate_spark.spark.writers.columns.planning import arrow_schema

# The columns of a record, and the types of each; the first is the one to cast to.
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
    """How the tasks make their rows records.

    Raises BadOption for an option that says nothing of records, and Refused, with the line to write, for columns that
    make none.
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
            # Under its own name the gateway would send each row to the topic that it comes from.
            field = field.with_name(aside)
        sent.append((number, field))
        if options.lane_names is not None and columns.names[number] == options.lane_names[0]:
            used_up += [] if field.name in TYPES else [field.name]
    return Fit(tuple(sent), used_up=tuple(used_up))


def _check_options(options: Options) -> None:
    if options.key_names:
        raise BadOption(
            "keyCol does nothing where topics lie in Kafka, which places a row by its column key, or partition: write "
            f'.withColumn("key", …) in its place{NOTHING}'
        )
    if options.merges:
        raise BadOption(f"mergeSchema does nothing where topics lie in Kafka: records have no more columns{NOTHING}")
    if options.by_row and options.write == "ids" and options.lane_names is None and options.id_set is None:
        raise BadOption(
            "an id counts once in the set of its topic, and here each row names its own topic; add "
            f'.option("idSet", "<a name for all of them>"), or .option("topic", "<topic>"){NOTHING}'
        )


def _check_columns(options: Options, schema: Any) -> None:
    kinds = {field.name: field.dataType.simpleString() for field in schema.fields}
    used = _used(options)
    if strange := [name for name in kinds if name not in TYPES and name not in used]:
        raise Refused(
            f"{', '.join(strange)}: no column of a Kafka record, which has {', '.join(TYPES)}: write "
            f"{_select(kinds, used)}{NOTHING}",
            code="SCHEMA",
        )
    if "value" not in kinds:
        raise Refused(f"required column 'value' not found: write df.select({_ALL}){NOTHING}", code="SCHEMA")
    for name, kind in kinds.items():
        is_sent = name in TYPES and not (name == TOPIC_COLUMN and not options.by_row)
        if is_sent and kind not in TYPES[name]:
            raise Refused(
                f"column {name} is of type {kind}, and has to be {' or '.join(TYPES[name])}: write "
                f'df.withColumn("{name}", F.col("{name}").cast("{TYPES[name][0]}")){NOTHING}',
                code="SCHEMA",
            )


def _select(kinds: dict[str, str], used: set[str]) -> str:
    """What leaves the columns of a record, and those that the write needs; all in one value where there is none."""
    kept = [quoted(name) for name in kinds if name in TYPES or name in used]
    return f"df.select({', '.join([*kept, *([] if 'value' in kinds else [_ALL])])})"


def _used(options: Options) -> set[str]:
    """The columns that the write needs, whether a record has them or not."""
    return {*options.id_names, *options.digest_names, *(options.lane_names or ())}


def _free_name(names: list[str]) -> str:
    name = "topic_of_row"
    while found(name, names) is not None:
        name += "_"
    return name
