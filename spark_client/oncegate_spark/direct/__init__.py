"""Writes a producer's rows into a topic of Kafka by this process alone: they do not pass through the gateway.

with Gateway("http://gateway:8080", namespace="mail") as gateway:
    with DirectWriter(gateway, "orders", "events-3") as writer:
        print(writer.write([DirectRow(17, b"{}"), DirectRow(18, b"{}")]))  # both, or neither; each once

Start, ask, commit: a producer of Kafka starts under the lane's transactional id, which fences whoever had it before;
then the gateway is asked which sequences are written; then the others and one record of them are committed in one
transaction of that producer, which is never used again.
"""

from oncegate_spark.direct.transaction import DirectRow
from oncegate_spark.direct.writer import DirectWriter, DirectWritten

__all__ = ["DirectRow", "DirectWriter", "DirectWritten"]
