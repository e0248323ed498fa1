"""Writes a producer's rows into a Kafka topic directly from this process; they do not pass through the gateway.

with Gateway("http://gateway:8080", namespace="mail") as gateway:
    with DirectWriter(gateway, "orders", "events-3") as writer:
        print(writer.write([DirectRow(17, b"{}"), DirectRow(18, b"{}")]))  # both, or neither; each once

A write has three steps. A Kafka producer starts under the lane's transactional id, which fences its predecessor. The
gateway is asked which sequences are written. The others are committed, with one record that lists them, in a
transaction of that producer, which is never reused.
"""

from oncegate_spark.direct.transaction import DirectRow
from oncegate_spark.direct.writer import DirectWriter, DirectWritten

__all__ = ["DirectRow", "DirectWriter", "DirectWritten"]
