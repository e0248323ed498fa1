"""Drops rows whose ids another job has claimed: a transformation of batches, for any sink.

Ids are claimed without a lease, permanently, by the first job that asks. The same job is granted them again however
often Spark evaluates the plan, so retries are harmless.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from oncegate_spark.credentials import NONE, Credentials
from oncegate_spark.errors import BadOption, OncegateError, Refused, TaskFailed
from oncegate_spark.protocol.columns import Columns, column_names, columns_of
from oncegate_spark.protocol.effort import LEASE_MS, TIMEOUT_MS, BusyWatch, pause_ms
from oncegate_spark.protocol.outage import BLOCK
from oncegate_spark.spark import pickling, task_identity
from oncegate_spark.spark.options.column_names import is_case_sensitive, resolved
from oncegate_spark.spark.writers import check_ids
from oncegate_spark.spark.writers.claim_loop import pieces
from oncegate_spark.spark.writers.types import check_types
from oncegate_spark.sync.endpoint import Endpoint
from oncegate_spark.sync.gateway import Gateway

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Observation

COPIES, TAKEN = "copies", "taken"
NO_STREAM = (
    "dedup is for batches: a stream has one job_key for ever, whose ids are granted to it again in every batch, so an "
    'id repeated later would pass. Write the stream with .option("write", "ids").option("idCol", …), or '
    'call dedup inside foreachBatch with job_key=f"<a name>/{batch_id}"'
)


def dedup(
    df: "DataFrame",
    id_col: Columns,
    *,
    job_key: str,
    gateway: str,
    namespace: str = "default",
    timeout_ms: int = TIMEOUT_MS,
    credentials: Credentials = NONE,
    id_set: str | None = None,
    observation: "Observation | None" = None,
    on_down: str = BLOCK,
) -> "DataFrame":
    """Returns one row of `df` for each id that belongs to this job: unclaimed by other job keys, and unwritten in its
    dedup scope.

    Ids that another attempt is writing are waited for.

        id_col       column, or columns, of a row's id: strings, binary, integers, decimals, dates or timestamps, never
                     null or empty
        job_key      names the job and its input, "load-2026-11-20". A re-run uses the same key and gets the same ids
                     again, even after a crash; another input needs another key, or ids in both inputs pass twice
        gateway      "http://gateway:8080"; `namespace` and `timeout_ms` as elsewhere
        credentials  files of the key and of certificates, at the same paths on each executor; a key itself is not
                     passed on
        id_set       dedup scope of the ids. The default "dedup" is separate from those of `ids` and `claim`; a topic's
                     name is the scope of ids written to it, "" that of `claim`
        observation  a new `pyspark.sql.Observation`; after the first action it has `rows` (input), `duplicates` (rows
                     whose id is in another row of `df`), `taken` (output) and `dropped` (ids of other jobs)
        on_down      while the gateway is down, a task retries for `timeout_ms` ("block") or fails at once ("fail")

    Of rows with equal ids Spark keeps any one, which may differ between evaluations; the ids do not. Nothing happens
    before an action, and every action claims again, which is safe. After a `limit` the ids of whole batches stay
    claimed.

    Claimed does not mean written: ids claimed and not written by a job pass only in a re-run with the same `job_key`.
    The sink must tolerate retries of its own tasks (format("oncegate") with staged, or a table format's commit). An id
    stays claimed for the namespace's retention of ids; without one, for ever.

    Costs one shuffle, and a pass of all columns through Python. Raises BadOption, BadId and Refused (for a stream) on
    the driver, also for types that Python tasks cannot read and for workers without this package. A task that cannot
    claim its ids fails with TaskFailed; a null or empty id fails the job.
    """
    if df.isStreaming:
        raise Refused(NO_STREAM)
    names = _checked(df, id_col, job_key)
    endpoint = Endpoint(gateway, namespace, timeout_ms, credentials, on_down)
    endpoint.check("dedup")
    plain = df.toDF(*(f"c{n}" for n in range(len(df.columns))))  # mapInArrow does not support every column name
    ids = {f"c{df.columns.index(name)}": name for name in names}
    taker = IdTaker(endpoint, job_key, tuple(ids), id_set)
    flagged = _unique(plain, ids).mapInArrow(taker, _flagged_schema(plain))
    if observation is not None:
        flagged = flagged.observe(observation, *_counts())
    return flagged.where(TAKEN).drop(COPIES, TAKEN).toDF(*df.columns)


def _checked(df: "DataFrame", id_col: Columns, job_key: str) -> tuple[str, ...]:
    """Returns the id columns with the DataFrame's names. Raises BadOption and BadId before a job starts."""
    sensitive = is_case_sensitive(df.sparkSession)
    names = resolved(column_names(id_col), df.columns, sensitive)
    if not names:
        raise BadOption('dedup needs an id; set id_col="<column>[,<column>]"')
    if len(set(df.columns)) != len(df.columns):
        raise BadOption(f"dedup needs distinct column names, and these are {', '.join(df.columns)}")
    check_ids(names, df.schema, "id_col")
    check_types(df.schema, False)
    pickling.check_workers(df.sparkSession)
    if not isinstance(job_key, str) or not job_key:
        shown = "empty" if job_key == "" else f"{job_key!r}, not a text"
        raise BadOption(f'job_key is {shown}; name the job and its input, such as job_key="load-2026-11-20"')
    batch = task_identity.batch_of(df)
    if batch is not None and not re.search(rf"(?<!\d){batch}(?!\d)", job_key):
        raise BadOption(
            f"job_key is {job_key!r} in batch {batch} of a stream: ids of an earlier batch with the same key would "
            'pass again; inside foreachBatch set job_key=f"<a name>/{batch_id}"'
        )
    return names


def _unique(df: "DataFrame", ids: Mapping[str, str]) -> "DataFrame":
    """Returns one row per id, with its number of rows in `COPIES`.

    Spark removes repeated ids exactly. The gateway cannot: it grants an id to its owner as often as requested. `ids`:
    the id columns, with the user's names for them.
    """
    from pyspark.sql import functions as F

    others = [F.first(name).alias(name) for name in df.columns if name not in ids]
    unique = df.withColumns(_with_ids(df, ids)).groupBy(*ids).agg(*others, F.count(F.lit(1)).alias(COPIES))
    return unique.select(*df.columns, COPIES)


def _with_ids(df: "DataFrame", ids: Mapping[str, str]) -> dict[str, "Column"]:
    """Returns the id columns as expressions that fail the job for a row without an id.

    Grouping by id would turn all such rows into one.
    """
    from pyspark.sql import functions as F

    made = {}
    for column, name in ids.items():
        failing = _failing("null", name, f'F.col("{name}").isNotNull()')
        made[column] = F.when(F.col(column).isNull(), failing).otherwise(F.col(column))
    if all(df.schema[column].dataType.typeName() in {"string", "binary"} for column in ids):
        empty = reduce(and_, (F.length(column) == 0 for column in ids))
        condition = " | ".join(f'(F.length("{name}") > 0)' for name in ids.values())
        first = next(iter(ids))
        made[first] = F.when(empty, _failing("empty", ", ".join(ids.values()), condition)).otherwise(made[first])
    return made


def _failing(what: str, name: str, condition: str) -> "Column":
    from pyspark.sql import functions as F

    text = (
        f"dedup: a row has an id that is {what} in {name}, and rows without an id cannot be told apart. "
        f"Leave them out first: df.where({condition})"
    )
    return F.raise_error(F.lit(text))


def _flagged_schema(df: "DataFrame") -> Any:
    """Returns the schema of the rows of `IdTaker`, by position: the columns of `_unique`, then `TAKEN`."""
    from pyspark.sql.types import BooleanType, LongType, StructField, StructType

    made = [StructField(COPIES, LongType()), StructField(TAKEN, BooleanType())]
    return StructType([*df.schema.fields, *made])


def _counts() -> list["Column"]:
    from pyspark.sql import functions as F

    rows, ids = F.coalesce(F.sum(COPIES), F.lit(0)), F.count(F.lit(1))
    taken = F.count_if(F.col(TAKEN))
    named = {"rows": rows, "duplicates": rows - ids, "taken": taken, "dropped": ids - taken}
    return [count.alias(name) for name, count in named.items()]


@dataclass(frozen=True)
class IdTaker:
    """Claims the ids of a task's rows, for mapInArrow: returns every row with whether its id belongs to the owner."""

    endpoint: Endpoint
    owner: str
    id_names: tuple[str, ...]
    id_set: str | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        writer = task_identity.writer_of(task_identity.of_task(), self.owner)
        with self.endpoint.open(writer) as gateway:
            for batch in batches:
                yield batch.append_column(TAKEN, self._owned_or_failed(gateway, batch))

    def owned(self, gateway: Gateway, batch: pa.RecordBatch) -> pa.Array:
        """Claims the ids of one batch; returns bool[rows], True for the owner's ids.

        Raises BadId before any id is claimed.
        """
        columns = columns_of(batch, self.id_names)
        cuts = pieces(columns, 0, batch.num_rows)
        parts = [taken(gateway, self.owner, [column.slice(*cut) for column in columns], self.id_set) for cut in cuts]
        return pa.concat_arrays(parts) if parts else pa.array([], pa.bool_())

    def _owned_or_failed(self, gateway: Gateway, batch: pa.RecordBatch) -> pa.Array:
        """Like `owned`; adds the place to an error."""
        try:
            return self.owned(gateway, batch)
        except OncegateError as error:
            task = task_identity.of_task()
            where = f"dedup as {self.owner} through {self.endpoint.url}, partition {task.partition}"
            kept = "ids claimed so far stay this job's and are granted to it again; dedup writes no rows"
            text = f"{where}, attempt {task.attempt}: {error}; {kept}"
            raise TaskFailed(text, outcome=error.outcome, code=error.code) from error


def taken(gateway: Gateway, owner: str, columns: list[pa.Array], id_set: str | None = None) -> pa.Array:
    """Claims ids without a lease, waiting for those that another attempt is writing; returns bool[n], True for the
    owner's.

    `columns`: of the ids, n values each. Raises StillBusy if an attempt neither completes nor releases, and errors of
    `Gateway.take`; a repeat is harmless.
    """
    ids, watch = pa.table(columns, names=[f"id{n}" for n in range(len(columns))]), None
    all_rows = rows = pa.array(range(ids.num_rows), pa.int64())
    ours = [rows.slice(0, 0)]
    while ids.num_rows:
        verdicts = gateway.take(owner, ids, id_set=id_set).verdicts
        ours.append(rows.filter(verdicts.may_write))
        if verdicts.granted:
            watch = None
        elif verdicts.unsettled:
            watch = watch or BusyWatch(verdicts.lease_ms or LEASE_MS, gateway.rng)
            gateway.clock.sleep_ms(pause_ms(watch, gateway.clock.monotonic_ms(), verdicts))
        ids, rows = ids.filter(verdicts.open), rows.filter(verdicts.open)
    return pc.is_in(all_rows, value_set=pa.concat_arrays(ours))
