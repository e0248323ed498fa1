"""Asks the gateway on the driver, before any task, whether a write can come to its end there.

What one question shows would else be found by every task, and each of its attempts: a gateway that is not there, a
namespace that nobody made, a topic whose columns are others. A write by tasks says the same, only later and more often.
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

SOON_MS = 3_000  # a gateway that starts again takes less; after that a person at the driver is told what is waited for

log = logging.getLogger("oncegate_spark")
NOWHERE_DIRECT = (
    "write=direct writes into topics of Kafka, and this gateway keeps rows itself (its ledger is not on Kafka): take "
    '.option("write", "ids"), which knows rows by the same columns'
)
_WIDE = 100  # so many columns, or bytes of fixed width, that the gateway's limits are asked for

_NO_ROWS = codecs.stream([pa.RecordBatch.from_pydict({"value": pa.array([], pa.string())})])


@dataclass(frozen=True)
class WriteTarget:
    """Describes what a write goes to, as the gateway has it.

    topic: None where the first write makes it, and with write=claim. brokers: of Kafka, where topics lie there.
    """

    topic: Topic | None = None
    brokers: str = ""


def planned_writer(chosen: Options, read: BatchInput | None, schema: Any) -> Writer:
    """On the driver, before any task: checks the write by its schema and at the gateway, and makes its writer.

    Raises as `check_schema` and `check_target`, with nothing written.
    """
    options = check_schema(chosen, schema)
    fit = check_target(options, schema)
    named = fit.renamed(options, schema.names)
    check_fitted(named, fit)
    differing = [pair for pair in zip(_columns(chosen), _columns(options), strict=True) if pair[0] != pair[1]]
    return writer_of(named, read, replace(fit, folded=(*differing, *fit.folded)))


def check_target(options: Options, schema: Any) -> Fit:
    """Returns how the rows of a write become its topic's; with mergeSchema the topic has their new columns by then.

    Raises what the write would be refused for, with nothing written: NotFound, Refused, LedgerBehind; Unavailable where
    nobody answers in `timeoutMs`.
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
    """Returns how rows become records of Kafka's topics. It writes no rows to the topic, to learn whether it is there.

    Topics that rows name themselves are known when the rows are: the first task tells of one that is missing.
    """
    fit = records(options, schema)
    if options.write == "direct":
        return fit
    if not options.by_row:
        with planning_gateway(options) as gateway:
            gateway.produce(options.topic, new_token(), 0, _NO_ROWS)
    return fit


def _merged(options: Options, topic: Topic, schema: Any) -> Topic:
    """Adds the rows' new columns to the topic, and returns it as it is then: others may have added some too."""
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
    """As `_target_of`, for all of `timeoutMs`; a gateway that does not answer soon is logged before that is over."""
    try:
        return _target_of(options, schema, min(SOON_MS, options.timeout_ms))
    except Unavailable as error:
        if options.timeout_ms <= SOON_MS:
            raise
        logs.be_heard()
        log.warning("%s; it is asked for %d ms in all", _plain(error), options.timeout_ms)
    return _target_of(options, schema, options.timeout_ms - SOON_MS)


def _target_of(options: Options, schema: Any, timeout_ms: int) -> WriteTarget:
    """Asks the gateway for the topic of a write, for `timeout_ms`.

    Raises NotFound: there is no namespace, or no topic and none may be made; Refused: no row of this schema is small
    enough; Unavailable.
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
    """Warns where the namespace's settings leave less of this write mode's promise than it has elsewhere.

    Gateways of before do not name their promises by namespace.
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
    """The same error in the words of options, as the driver's: whatever it could not ask, nothing was written."""
    text = f"before any task: {in_options(_plain(error))}{NOTHING}"
    return type(error)(text, outcome=Outcome.NOT_WRITTEN, code=error.code, **error.extra)


def _plain(error: OncegateError) -> str:
    """Its text without what was written: a question writes nothing."""
    return str(error).removesuffix(NOTHING).removesuffix("; unknown: nothing; it only reads")


def check_fitted(options: Options, fit: Fit) -> None:
    """Raises BadId where a column that ids, payloads or sequences are made of is of no such type in the topic."""
    types = {field.name: field.type for _, field in fit.columns or ()}
    numbered = () if options.lane_names is None else options.lane_names[1:]
    for name, good in (
        *((name, is_id) for name in (*options.id_names, *options.digest_names)),
        *((name, pa.types.is_integer) for name in numbered),
    ):
        if name in types and not good(types[name]):
            raise BadId(
                f"column {name} is of type {types[name]} in topic {options.topic}, which no id or sequence is of: take "
                "a new topic; nothing was written"
            )


def _columns(options: Options) -> tuple[str, ...]:
    return (*options.id_names, *options.digest_names, *options.key_names, *(options.lane_names or ()))
