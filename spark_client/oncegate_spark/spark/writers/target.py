"""Checks a write at the gateway, on the driver and before any task starts.

Otherwise every attempt of every task would run into the same error: an unreachable gateway, a missing namespace, a
topic with other columns.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from oncegate_spark.errors import NOTHING, BadId, NotFound, OncegateError, Outcome, Refused, Unavailable
from oncegate_spark.protocol import codecs
from oncegate_spark.protocol.answers import Topic
from oncegate_spark.protocol.effort import new_token
from oncegate_spark.protocol.ids import is_id
from oncegate_spark.spark import logs
from oncegate_spark.spark.checkpoint import BatchInput
from oncegate_spark.spark.options import Options
from oncegate_spark.spark.options.advice import in_options
from oncegate_spark.spark.writers import Writer, check_schema, writer_of
from oncegate_spark.spark.writers.columns.fitting import AS_THEY_COME, Fit
from oncegate_spark.spark.writers.columns.planning import added, check_size, least_size, planned
from oncegate_spark.spark.writers.columns.records import records
from oncegate_spark.spark.writers.common import planning_gateway

SOON_MS = 3_000  # longer than a gateway restart; after that, the user at the driver sees what the job waits for

log = logging.getLogger("oncegate_spark")
NOWHERE_DIRECT = (
    "write=direct writes into Kafka topics, and this gateway stores rows itself (its ledger is not on Kafka): set "
    '.option("write", "ids"), which recognises rows by the same columns'
)
_WIDE = 100  # number of columns, or bytes of fixed width, from which the gateway's limits are requested

_NO_ROWS = codecs.stream([pa.RecordBatch.from_pydict({"value": pa.array([], pa.string())})])


@dataclass(frozen=True)
class WriteTarget:
    """Target of a write at the gateway.

    `topic`: None if the first write creates it, and with write=claim. `brokers`: Kafka's, if topics are there.
    """

    topic: Topic | None = None
    brokers: str = ""


def planned_writer(chosen: Options, read: BatchInput | None, schema: Any) -> Writer:
    """On the driver, before any task: checks the write's schema and target, and returns its writer.

    Raises like `check_schema` and `check_target`; nothing was written.
    """
    options = check_schema(chosen, schema)
    fit = check_target(options, schema)
    named = fit.renamed(options, schema.names)
    check_fitted(named, fit)
    differing = [pair for pair in zip(_columns(chosen), _columns(options), strict=True) if pair[0] != pair[1]]
    return writer_of(named, read, replace(fit, folded=(*differing, *fit.folded)))


def check_target(options: Options, schema: Any) -> Fit:
    """Returns the conversion of rows to the topic's columns; with mergeSchema adds new columns to the topic first.

    Raises the errors that the write would raise, with nothing written: NotFound, Refused, LedgerBehind; Unavailable if
    the gateway does not respond within `timeoutMs`.
    """
    try:
        target = _target_in_time(options, schema)
        if options.write == "claim":
            return AS_THEY_COME
        if target.brokers:
            return _fit_of_records(options, schema)
        if options.write == "direct":
            raise Refused(NOWHERE_DIRECT)
        topic = target.topic
        if options.merges and topic is not None:
            topic = _merged(options, topic, schema)
    except OncegateError as error:
        raise _worded(error) from error
    if options.by_row:
        raise options.without_topic
    return planned(topic, schema, options.topic)


def _fit_of_records(options: Options, schema: Any) -> Fit:
    """Returns the conversion of rows to Kafka records; produces an empty request to check that the topic exists.

    Topics named by rows are unknown before the rows are read: the first task reports a missing one.
    """
    fit = records(options, schema)
    if options.write == "direct":
        return fit
    if not options.by_row:
        with planning_gateway(options) as gateway:
            gateway.produce(options.topic, new_token(), 0, _NO_ROWS)
    return fit


def _merged(options: Options, topic: Topic, schema: Any) -> Topic:
    """Adds the rows' new columns to the topic; returns the topic, which concurrent writes may have extended too."""
    new = added(topic, schema)
    if new is None:
        return topic
    with planning_gateway(options) as gateway:
        gateway.create_topic(options.topic, schema=new, merge_schema=True)
        logs.be_heard()
        log.warning(
            "topic %s has new columns: %s; rows written before have nulls there", topic.name, ", ".join(new.names)
        )
        return gateway.topic(options.topic)


def _target_in_time(options: Options, schema: Any) -> WriteTarget:
    """Like `_target_of`, retrying for all of `timeoutMs`; logs a warning if the gateway does not respond soon."""
    try:
        return _target_of(options, schema, min(SOON_MS, options.timeout_ms))
    except Unavailable as error:
        if options.timeout_ms <= SOON_MS:
            raise
        logs.be_heard()
        log.warning("%s; the driver retries for %d ms in total", _plain(error), options.timeout_ms)
    return _target_of(options, schema, options.timeout_ms - SOON_MS)


def _target_of(options: Options, schema: Any, timeout_ms: int) -> WriteTarget:
    """Looks up the topic of a write, for at most `timeout_ms`.

    Raises NotFound if the namespace does not exist, or the topic and it may not be created; Refused if every row of
    this schema would be too large; Unavailable.
    """
    with planning_gateway(options, timeout_ms) as gateway:
        columns, size_bytes = least_size(schema)
        if options.write != "claim" and max(columns, size_bytes) > _WIDE:
            check_size(columns, size_bytes, gateway.limits())
        namespace = gateway.describe()
        _warn_of_less(options, namespace)
        if options.write == "claim":
            return WriteTarget()
        topic, missing = None, None
        try:
            topic = None if options.by_row else gateway.topic(options.topic)
        except NotFound as error:
            missing = error
        if topic is not None and topic.schema is not None:
            return WriteTarget(topic)
        if "topics_at" not in namespace and missing is not None and not namespace["auto_create_topics"]:
            raise missing
        return WriteTarget(topic, namespace.get("topics_at", ""))


def _warn_of_less(options: Options, namespace: Mapping[str, Any]) -> None:
    """Warns if the namespace's settings weaken the guarantee of this write mode.

    Older gateways do not report guarantees per namespace.
    """
    of_mode = namespace.get("writes", {}).get(options.write, {})
    if "lowered_by" in of_mode:
        logs.be_heard()
        log.warning(
            "write=%s into namespace %s is %s, by its setting %s: %s",
            options.write,
            options.namespace,
            of_mode["promise"],
            of_mode["lowered_by"],
            of_mode["means"],
        )


def _worded(error: OncegateError) -> OncegateError:
    """Returns the error with option names, and the effect NOT_WRITTEN: nothing was written before any task."""
    text = f"before any task: {in_options(_plain(error))}{NOTHING}"
    return type(error)(text, outcome=Outcome.NOT_WRITTEN, code=error.code, **error.extra)


def _plain(error: OncegateError) -> str:
    """Returns the message without its closing statement of the effect: a look-up writes nothing."""
    return str(error).removesuffix(NOTHING).removesuffix("; unknown: nothing; it only reads")


def check_fitted(options: Options, fit: Fit) -> None:
    """Raises BadId if an id, payload or sequence column has an unsuitable type in the topic."""
    types = {field.name: field.type for _, field in fit.columns or ()}
    numbered = () if options.lane_names is None else options.lane_names[1:]
    for name, good in (
        *((name, is_id) for name in (*options.id_names, *options.digest_names)),
        *((name, pa.types.is_integer) for name in numbered),
    ):
        if name in types and not good(types[name]):
            raise BadId(
                f"column {name} is of type {types[name]} in topic {options.topic}, which cannot be an id or sequence: "
                "use "
                "a new topic; nothing was written"
            )


def _columns(options: Options) -> tuple[str, ...]:
    return (*options.id_names, *options.digest_names, *options.key_names, *(options.lane_names or ()))
