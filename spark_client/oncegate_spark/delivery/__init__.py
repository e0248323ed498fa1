"""Claims records, writes them into an external sink, and resolves records in doubt by asking the sink.

with Gateway("http://gateway:8080", namespace="shop") as gateway:
    delivery = Delivery(gateway, HttpSink("https://payments.example/charges"))
    print(delivery.deliver([Record("order-41", b'{"cents": 1200}')]))

A lost reply of the sink, or a dead writer, leaves records *in doubt*. They are neither written again nor dropped until
the sink has been asked (`Sink.find`, by fence and read). `sink` lists the requirements on a sink; each ready sink
documents its guarantee.
"""

from oncegate_spark.delivery.database import DatabaseSink
from oncegate_spark.delivery.deliver import Delivered, Delivery, Resolved, Resolver
from oncegate_spark.delivery.event_ids import EventIds, Horizon, time_ms_of
from oncegate_spark.delivery.folder import FolderSink
from oncegate_spark.delivery.http_sink import HttpSink, idempotency_key
from oncegate_spark.delivery.kafka import KafkaSink
from oncegate_spark.delivery.sink import FunctionSink, Record, Sink

__all__ = [
    "DatabaseSink",
    "Delivered",
    "Delivery",
    "EventIds",
    "FolderSink",
    "FunctionSink",
    "Horizon",
    "HttpSink",
    "KafkaSink",
    "Record",
    "Resolved",
    "Resolver",
    "Sink",
    "idempotency_key",
    "time_ms_of",
]
