"""Helpers shared by all writers that use their own Kafka producer."""

from typing import TYPE_CHECKING, Any

from oncegate_spark.errors import BadOption

if TYPE_CHECKING:
    from confluent_kafka import Producer

_EXTRA = "pip install 'oncegate-spark[kafka]'"
# Pause while the producer's queue is full; librdkafka has no notification for free space.
_ROOM_S = 0.01


def kafka_client(what: str) -> Any:
    """Imports confluent_kafka; `what` names the caller. Raises BadOption with the command that installs it."""
    try:
        import confluent_kafka.admin
    except ImportError as error:
        raise BadOption(f"{what} needs confluent-kafka: {_EXTRA} ({error})") from error
    return confluent_kafka


def hand_over(producer: "Producer", topic: str, **record: Any) -> None:
    """Queues a record for sending, waiting while the queue is full. Raises KafkaException."""
    while True:
        try:
            producer.produce(topic, **record)
            return
        except BufferError:
            producer.poll(_ROOM_S)


def is_fenced(kafka: Any, error: Any) -> bool:
    """True if a later producer took over the transactional id."""
    codes = kafka.KafkaError
    return error.code() in (codes._FENCED, codes.PRODUCER_FENCED, codes.INVALID_PRODUCER_EPOCH)


def is_unknown(kafka: Any, error: Any) -> bool:
    """True if the brokers rejected the credentials."""
    codes = kafka.KafkaError
    return error.code() in (codes._AUTHENTICATION, codes.SASL_AUTHENTICATION_FAILED)
