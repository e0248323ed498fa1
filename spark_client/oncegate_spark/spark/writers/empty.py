"""Makes the topic of a write that had no rows: whoever reads it finds its columns and nothing in it.

Not where topics are Kafka's, since those are made by whoever runs the brokers.
"""

import logging
from dataclasses import dataclass
from typing import Any

from oncegate_spark.errors import NotFound
from oncegate_spark.spark.options import Options
from oncegate_spark.spark.writers.columns.planning import arrow_schema
from oncegate_spark.spark.writers.common import planning_gateway

log = logging.getLogger("oncegate_spark")


@dataclass(frozen=True)
class EmptyWrite:
    """Holds what the topic of a write is made of, where none of its rows made it. `schema`: Spark's."""

    options: Options
    schema: Any

    def make_topic(self) -> None:
        """On the driver, after the commit of a write that had no rows; no effect where the topic has columns.

        Raises Refused where somebody has made it with others meanwhile, Unavailable.
        """
        options = self.options
        if options.write == "claim":
            return
        columns = arrow_schema(self.schema)
        if columns is None:
            log.warning("topic %s is not made by a write of no rows: a column has no type in Arrow", options.topic)
            return
        with planning_gateway(options) as gateway:
            try:
                if gateway.topic(options.topic).schema is not None:
                    return
            except NotFound:
                pass
            if "topics_at" in gateway.describe():
                return
            gateway.create_topic(options.topic, schema=columns)
            log.info("topic %s is made by a write of no rows", options.topic)
