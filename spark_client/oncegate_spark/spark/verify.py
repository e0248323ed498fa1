"""Compares the rows to be written with the ledger of a running gateway and with the output, as a Spark job.

Does the same as `oncegate verify --against` does in one process, for inputs too large for it and for outputs that only
Spark can read. The order makes the result correct while rows are still being written. The ledger is asked about the
whole input before the output is read, so an id known to it but absent from the output is missing. Ids in the output
that the ledger did not know may have been written in between, so the ledger is asked about them again.

Ids are compared in the gateway's canonical form: text, or bytes if the input has bytes; docs/concepts.md defines it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from oncegate_spark.credentials import NONE, Credentials
from oncegate_spark.errors import BadOption, OncegateError, Refused, TaskFailed
from oncegate_spark.protocol.columns import Columns, column_names
from oncegate_spark.protocol.effort import TIMEOUT_MS
from oncegate_spark.protocol.outage import BLOCK
from oncegate_spark.spark import pickling, task_identity
from oncegate_spark.spark.options.column_names import is_case_sensitive, resolved
from oncegate_spark.spark.writers import check_ids
from oncegate_spark.sync.endpoint import Endpoint
from oncegate_spark.sync.gateway import Gateway

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


# The kinds of `oncegate verify`.
OK, MISSING, NOT_WRITTEN, DOUBLED = "ok", "missing", "not_written", "doubled"
HELD, UNRECORDED, FOREIGN = "held", "unrecorded", "foreign"
KINDS = {
    OK: "in the input, known to the ledger, and in the output once",
    MISSING: "known to the ledger as written, but not in the output",
    NOT_WRITTEN: "in the input, but neither known to the ledger nor in the output",
    DOUBLED: "in the output more than once",
    HELD: "not in the output, and its claim is open or was left: verify again later",
    UNRECORDED: "in the output once, but not known as written: a retry would write it again",
    FOREIGN: "in the output, but not in the input",
}


@dataclass(frozen=True)
class Verified:
    """Result of a comparison.

    ids         number of ids of each kind in KINDS, including kinds with none
    without_id  rows of the output whose id is null or empty
    rows        a DataFrame, cached until `rows.unpersist()`: the id columns (text, or bytes if the input has
        bytes),
                `kind`, and `copies`, the number of rows of the output with this id
    """

    ids: Mapping[str, int]
    without_id: int
    rows: "DataFrame"

    @property
    def is_well(self) -> bool:
        """True if all ids are ok, and every row of the output has an id."""
        return not self.without_id and not any(count for kind, count in self.ids.items() if kind != OK)

    def __str__(self) -> str:
        lines = [f"{count:>13,} {kind:<12} {KINDS[kind]}" for kind, count in self.ids.items() if count or kind == OK]
        if self.without_id:
            lines.append(f"{self.without_id:>13,} rows of the output have no id (null or empty)")
        return "\n".join(lines)


TEXT, BYTES = ID_KINDS = "string", "binary"


def kinds_of(df: "DataFrame", names: Sequence[str]) -> tuple[str, ...]:
    """Returns for each id column of the input whether it is compared as text or as bytes."""
    return tuple(BYTES if df.schema[name].dataType.typeName() == BYTES else TEXT for name in names)


def texts(df: "DataFrame", names: Sequence[str], kinds: Sequence[str]) -> "DataFrame":
    """Selects the id columns, converted to `kinds`, under the names `id0`, `id1`, …."""
    columns = [_text(name, df.schema[name].dataType).cast(kind) for name, kind in zip(names, kinds, strict=True)]
    return df.select(*(column.alias(f"id{n}") for n, column in enumerate(columns)))


def _text(name: str, kind: Any) -> "Column":
    """Converts a column to canonical text if Spark's cast gives another one, because of scale or time zone."""
    from pyspark.sql import functions as F

    quoted = f"`{name.replace('`', '``')}`"
    match kind.typeName():
        case "decimal":
            digits = "0" + ("." + "#" * kind.scale if kind.scale else "")
            return F.expr(f"format_number({quoted}, '{digits}')")
        case "timestamp":
            # From its microseconds: a local time in the session's zone is ambiguous when summer time ends.
            seconds = f"CAST(unix_micros({quoted}) AS DECIMAL(20, 0)) / 1000000"
            utc = f"TIMESTAMP_NTZ'1970-01-01 00:00:00' + make_dt_interval(0, 0, 0, CAST({seconds} AS DECIMAL(18, 6)))"
            return F.concat(F.translate(F.expr(utc).cast(TEXT), " ", "T"), F.lit("Z"))
        case "timestamp_ntz":
            return F.translate(F.col(quoted).cast(TEXT), " ", "T")
    return F.col(quoted)


STATE, COPIES, KIND = "oncegate_state", "copies", "kind"
FREE, IS_HELD, KNOWN = 0, 1, 2
IDS_AT_ONCE = 50_000  # below the default limit of a request, 100,000


def verify(
    given: "DataFrame",
    output: "DataFrame",
    id_col: Columns,
    *,
    id_set: str,
    gateway: str,
    namespace: str = "default",
    output_id: Columns | None = None,
    timeout_ms: int = TIMEOUT_MS,
    credentials: Credentials = NONE,
    on_down: str = BLOCK,
) -> Verified:
    """Compares the ids of `given`, the rows to be written, with the ledger and with `output`, the rows written.

        id_col   column, or columns, of an id in `given`; `output_id`: those in `output`, if they have other names. Ids
                 are compared as text: a number equals its decimal text, an instant its RFC 3339 text in UTC. If the
                 input has bytes, ids are compared as bytes
        output   the sink's rows as Spark reads them, in any format: spark.read.format("oncegate"), "kafka" with the id
                 extracted from key, headers or value, or a table. It is read after the ledger has answered
        id_set   dedup scope of the ids: the topic's name for rows written by id, "" for `claim`
        gateway  "http://gateway:8080"; `namespace`, `timeout_ms` and `credentials` as elsewhere. Role `read`
        on_down  while the gateway is down, a task retries for `timeout_ms` ("block") or fails at once ("fail")

    Uses `ids:lookup`, which claims and writes nothing. Runs three Spark jobs with two shuffles by id, and caches the
    ids of `given` meanwhile. Repeated ids in `given` count once. Raises BadOption, BadId and Refused (for a stream)
    before a job starts; a failed look-up, and a null or empty id in `given`, fail their task with TaskFailed.
    """
    names = _names(given, id_col, "id_col")
    theirs = _names(output, id_col if output_id is None else output_id, "output_id")
    if len(names) != len(theirs):
        raise BadOption(f"ids of {len(names)} columns ({', '.join(names)}) cannot equal ids of {len(theirs)} columns")
    endpoint = Endpoint(gateway, namespace, timeout_ms, credentials, on_down)
    endpoint.check("verify")
    pickling.check_workers(given.sparkSession)
    lookup = IdLookup(endpoint, id_set, kinds_of(given, names))
    looked_up = _looked_up(texts(given, names, lookup.kinds).distinct(), lookup).persist()
    try:
        looked_up.count()  # completes before any of the output is read
        return _compared(looked_up, texts(output, theirs, lookup.kinds), lookup, names)
    finally:
        looked_up.unpersist()


def _compared(looked_up: "DataFrame", written: "DataFrame", lookup: "IdLookup", names: Sequence[str]) -> Verified:
    """Counts the kinds of ids, from the ledger's states and the copies in the output, in two jobs."""
    from pyspark.sql import functions as F

    ids = lookup.columns
    copies = written.groupBy(*ids).agg(F.count(F.lit(1)).alias(COPIES)).persist()
    lacking = _lacking(ids)
    joined = looked_up.join(copies.where(~lacking), list(ids), "full_outer").withColumn(KIND, _kind())
    joined = joined.select(*ids, KIND, F.coalesce(COPIES, F.lit(0)).alias(COPIES)).persist()
    unknown = joined.where(F.col(KIND) == UNRECORDED)
    again = _looked_up(unknown.select(*ids), lookup).join(unknown, list(ids))
    settled = F.when(F.col(STATE) == KNOWN, OK).otherwise(UNRECORDED)
    again = again.select(*ids, settled.alias(KIND), COPIES)
    rows = joined.where(F.col(KIND) != UNRECORDED).union(again).toDF(*names, KIND, COPIES).persist()
    counts = {row[KIND]: row["count"] for row in rows.groupBy(KIND).count().collect()}
    without_id = copies.where(lacking).agg(F.coalesce(F.sum(COPIES), F.lit(0))).collect()[0][0]
    for kept in (joined, copies):
        kept.unpersist()
    return Verified({kind: counts.get(kind, 0) for kind in KINDS}, without_id, rows)


def _kind() -> "Column":
    """Returns the kind of an id from its state in the ledger (null if it is not in the input) and its copies."""
    from pyspark.sql import functions as F

    state, copies = F.col(STATE), F.coalesce(F.col(COPIES), F.lit(0))
    absent = F.when(state == KNOWN, MISSING).when(state == IS_HELD, HELD).otherwise(NOT_WRITTEN)
    once = F.when(state == KNOWN, OK).otherwise(UNRECORDED)
    there = F.when(copies == 0, absent).when(copies == 1, once).otherwise(DOUBLED)
    return F.when(state.isNull(), FOREIGN).otherwise(there)


def _lacking(ids: Sequence[str]) -> "Column":
    """Returns whether a row has no id: a column is null, or all are empty."""
    from pyspark.sql import functions as F

    columns = [F.col(name) for name in ids]
    return reduce(or_, (column.isNull() for column in columns)) | reduce(
        and_, (F.length(column) == 0 for column in columns)
    )


def _names(df: "DataFrame", columns: Columns, shown: str) -> tuple[str, ...]:
    if df.isStreaming:
        raise Refused("verify needs complete data, and a stream has no end: use spark.read instead of spark.readStream")
    names = resolved(column_names(columns), df.columns, is_case_sensitive(df.sparkSession))
    if not names:
        raise BadOption(f'verify needs an id; set {shown}="<column>[,<column>]"')
    check_ids(names, df.schema, shown)
    return names


def _looked_up(ids: "DataFrame", lookup: "IdLookup") -> "DataFrame":
    """Adds the column `STATE` with the ledger's state of each id."""
    columns = zip(lookup.columns, lookup.kinds, strict=True)
    schema = ", ".join([*(f"{name} {kind}" for name, kind in columns), f"{STATE} tinyint"])
    return ids.mapInArrow(lookup, schema)


@dataclass(frozen=True)
class IdLookup:
    """Looks up the ids of a task's rows, for mapInArrow: returns every id with the ledger's state.

    `kinds`: of the id columns, from `ID_KINDS`.
    """

    endpoint: Endpoint
    id_set: str
    kinds: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the id columns."""
        return tuple(f"id{n}" for n in range(len(self.kinds)))

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with self.endpoint.open() as gateway:
            for batch in batches:
                for start in range(0, batch.num_rows, IDS_AT_ONCE):
                    some = batch.slice(start, IDS_AT_ONCE)
                    yield some.append_column(STATE, self._states_or_failed(gateway, some))

    def states(self, gateway: Gateway, ids: pa.RecordBatch) -> pa.Array:
        """Returns the state of each id, int8[n]: FREE, IS_HELD or KNOWN. Ids must be distinct."""
        states = gateway.look_up(pa.Table.from_batches([ids]), self.id_set)
        held_or_free = pc.if_else(states.verdicts.held, IS_HELD, FREE)
        return pc.if_else(states.verdicts.known, KNOWN, held_or_free).cast(pa.int8())

    def _states_or_failed(self, gateway: Gateway, ids: pa.RecordBatch) -> pa.Array:
        """Like `states`; adds the place to an error."""
        try:
            return self.states(gateway, ids)
        except OncegateError as error:
            task = task_identity.of_task()
            where = f"verify through {self.endpoint.url}, partition {task.partition}, attempt {task.attempt}"
            text = f"{where}: {error}; verify writes nothing, and may be run again"
            raise TaskFailed(text, outcome=error.outcome, code=error.code) from error
