"""Returns the source offsets from which another query can continue a job's Kafka source.

A query keeps its position in its checkpoint. The offsets that the gateway stores with each batch, or with its ack, are
the same position in the same ledger entry as the rows, so a query with a new checkpoint can start exactly after them.
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
    """Returns the Kafka offsets after everything that a job has written to a topic, as JSON for `startingOffsets`.

        spark.readStream.format("kafka").option("startingOffsets", committed_offsets("etl", "departures", gateway=url))

        app       the job's txnAppId, else the id of its query
        topic     its target; with write=claim the option topic, or the sink's part of a lane's name without one
        write_id  of a write that has one
        on_down   while the gateway is down, "block" retries for `timeout_ms`, "fail" raises Unavailable at once

    With write=staged these are the offsets after the last committed batch; with sequences and with scope=retry, after
    the last acked one. Only one query may continue there: the older one must not run again. Raises NotFound if no
    offsets are stored, as for a job that never acks; Refused if the job's source is not a single Kafka source.
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
            f"{app} does not read a single Kafka source, so no query can start at its source offsets: "
            f"{offsets[:200]}. Gateway.source_offsets returns them unchanged"
        )
    return json.dumps(sources[0])


def _are_kafkas(offsets: Any) -> bool:
    """True for Kafka's offsets: one per partition of each topic."""
    if not isinstance(offsets, dict) or not offsets:
        return False
    of_topics = list(offsets.values())
    return all(
        isinstance(partitions, dict) and all(type(offset) is int for offset in partitions.values())
        for partitions in of_topics
    )
