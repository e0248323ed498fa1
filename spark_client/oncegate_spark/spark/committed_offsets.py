"""Gives back where a job's Kafka source is to be read on, as the gateway has it with the rows: for another query.

A query keeps its place in its checkpoint. What the gateway was told with each batch, or with the ack of it, is the same
place in the same entry as the rows, so that a query with a new checkpoint can begin exactly behind them.
"""

import json
from typing import Any

from oncegate_spark.credentials import NONE, Credentials
from oncegate_spark.errors import Refused
from oncegate_spark.protocol.effort import TIMEOUT_MS
from oncegate_spark.protocol.outage import BLOCK, check_without_rows
from oncegate_spark.sync.gateway import Gateway


def committed_offsets(
    app: str,
    topic: str,
    *,
    gateway: str,
    namespace: str = "default",
    write_id: str = "",
    timeout_ms: int = TIMEOUT_MS,
    credentials: Credentials = NONE,
    on_down: str = BLOCK,
) -> str:
    """The offsets of Kafka behind all that a job has written to a topic: JSON, as `startingOffsets` takes it.

        spark.readStream.format("kafka").option("startingOffsets", committed_offsets("etl", "departures", gateway=url))

    app       the job's txnAppId, else the id of its query
    topic     that it writes to; with write=claim the option topic, or the sink's end of a lane's name without one
    write_id  of a write that has one
    on_down   while the gateway is down "block" tries for `timeout_ms`, "fail" raises Unavailable at once

    With write=staged it is where the last batch ended that is committed; by sequence, and with scope=retry, the last
    that is acked. Whoever goes on there must be the only one: the older query may not run again. Raises NotFound where
    nobody has told it, as of a job that acks nothing; Refused where the job read another source than one of Kafka.
    """
    check_without_rows(on_down)
    with Gateway(gateway, namespace, timeout_ms=timeout_ms, credentials=credentials, on_down=on_down) as client:
        offsets = client.source_offsets(app, topic, write_id)
    try:
        sources = json.loads(offsets)
    except ValueError:
        sources = None
    if not isinstance(sources, list) or len(sources) != 1 or not _are_kafkas(sources[0]):
        raise Refused(
            f"{app} has read something else than one Kafka source, and no query could begin at its source offsets: "
            f"{offsets[:200]}. As they are they come from Gateway.source_offsets"
        )
    return json.dumps(sources[0])


def _are_kafkas(offsets: Any) -> bool:
    """Whether these are Kafka's: an offset for each partition of each topic."""
    if not isinstance(offsets, dict) or not offsets:
        return False
    of_topics = list(offsets.values())
    return all(
        isinstance(partitions, dict) and all(type(offset) is int for offset in partitions.values())
        for partitions in of_topics
    )
