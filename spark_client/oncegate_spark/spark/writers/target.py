"""Asks the gateway on the driver, before any task, whether a write can come to its end there.

What one question shows would else be found by every task, and each of its attempts: a gateway that is not there, a
namespace that nobody made, a topic whose columns are others. A write by tasks says the same, only later and more often.
"""

import logging
import re
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import StructType

from oncegate_spark.errors import NOTHING, NotFound, OncegateError, Outcome, Refused, Unavailable
from oncegate_spark.protocol.answers import Topic
from oncegate_spark.spark import logs
from oncegate_spark.spark.options import Options
from oncegate_spark.spark.options.members import in_options
from oncegate_spark.spark.writers.common import stored_mark
from oncegate_spark.sync.gateway import Gateway

SOON_MS = 3_000  # a gateway that starts again takes less; after that a person at the driver is told what is waited for

log = logging.getLogger("oncegate_spark")
# What no write is refused for, or only the gateway can compare: zones, nulls inside of columns, offsets of 64 bits.
_LOOSE = re.compile(r" not null|tz=[^\]]*|large_")


def check_target(options: Options, schema: Any) -> None:
    """Raises what the write would be refused for, with nothing written: NotFound, Refused, LedgerBehind; Unavailable
    where nobody answers in `timeoutMs`.
    """
    try:
        topic = _first_asked(options)
    except OncegateError as error:
        raise _worded(error) from error
    if topic is not None and topic.schema is not None:
        _check_columns(topic, schema)


def _first_asked(options: Options) -> Topic | None:
    """As `_topic`, for all of `timeoutMs`; what is waited for is said early."""
    try:
        return _topic(options, min(SOON_MS, options.timeout_ms))
    except Unavailable as error:
        if options.timeout_ms <= SOON_MS:
            raise
        logs.be_heard()
        log.warning("%s; it is asked for %d ms in all", _plain(error), options.timeout_ms)
    return _topic(options, options.timeout_ms - SOON_MS)


def _topic(options: Options, timeout_ms: int) -> Topic | None:
    """The topic; None where there is none yet and the first write makes it, and with write=claim, which has none."""
    with Gateway(options.url, options.namespace, timeout_ms=timeout_ms, mark=stored_mark(options)) as gateway:
        try:
            if options.write != "claim":
                return gateway.topic(options.topic)
            gateway.describe()
        except NotFound:
            if options.write == "claim" or not gateway.describe()["auto_create_topics"]:
                raise
    return None


def _worded(error: OncegateError) -> OncegateError:
    """The same error in the words of options, as the driver's: whatever it could not ask, nothing was written."""
    text = f"before any task: {in_options(_plain(error))}{NOTHING}"
    return type(error)(text, outcome=Outcome.NOT_WRITTEN, code=error.code, **error.extra)


def _plain(error: OncegateError) -> str:
    """Its text without what was written: a question writes nothing."""
    return str(error).removesuffix(NOTHING).removesuffix("; unknown: nothing; it only reads")


def _check_columns(topic: Topic, schema: Any) -> None:
    """Raises Refused unless the rows have the topic's columns: names, types and their order."""
    ours, theirs = _columns(schema), [(field.name, _loose(field.type)) for field in topic.schema or ()]
    if ours is None or ours == theirs:
        return
    named = ", ".join(f'"{name}"' for name, _ in theirs)
    if sorted(ours) == sorted(theirs):
        way = f"the order differs: write df.select({named})"
    else:
        way = (
            f"{_difference(dict(ours), dict(theirs))}: cast, add or drop, then df.select({named}); or take a new topic"
        )
    raise Refused(
        f"the rows do not fit topic {topic.name} (fix): {way}; nothing was written",
        code="SCHEMA",
    )


def _difference(ours: dict[str, str], theirs: dict[str, str]) -> str:
    lacking = [name for name in theirs if name not in ours]
    strange = [name for name in ours if name not in theirs]
    others = [
        f"{name} is {ours[name]} and {kind} there" for name, kind in theirs.items() if ours.get(name, kind) != kind
    ]
    found = [f"they lack {', '.join(lacking)}"] if lacking else []
    found += [f"the topic has no {', '.join(strange)}"] if strange else []
    return "; ".join(found + others)


def _columns(schema: StructType) -> list[tuple[str, str]] | None:
    """Names and types as Spark will send them; None where only Spark knows."""
    try:
        return [(field.name, _loose(to_arrow_type(field.dataType, timezone="UTC"))) for field in schema.fields]
    except PySparkException:
        return None


def _loose(kind: Any) -> str:
    return _LOOSE.sub("", str(kind))
