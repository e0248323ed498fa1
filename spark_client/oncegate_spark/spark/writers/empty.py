"""Creates the topic of a write without rows, so that readers find its columns.

Kafka topics are not created: those belong to the operators of the brokers.
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
    """Topic to create after a write without rows. `schema`: Spark's."""

    options: Options
    schema: Any

    def make_topic(self) -> None:
        """On the driver, after the commit of a write without rows; does nothing if the topic has columns.

        Raises Refused if it was created with other columns meanwhile, and Unavailable.
        """
        options = self.options
        if options.write == "claim":
            return
        columns = arrow_schema(self.schema)
        if columns is None:
            log.warning("topic %s is not created by a write without rows: a column has no Arrow type", options.topic)
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
            log.info("topic %s was created by a write without rows", options.topic)
