"""What every writer into Kafka by its own producer shares: the client, room in its queue, and who is refused."""

from typing import TYPE_CHECKING, Any

from oncegate_spark.errors import BadOption

if TYPE_CHECKING:
    from confluent_kafka import Producer

_EXTRA = "pip install 'oncegate-spark[kafka]'"
# Waited at once for room in the queue of what is sent; nothing wakes the one who waits.
_ROOM_S = 0.01


def kafka_client(what: str) -> Any:
    """The module of Kafka's client; `what`: needs it. Raises BadOption with the line to run."""
    try:
        import confluent_kafka.admin
    except ImportError as error:
        raise BadOption(f"{what} needs confluent-kafka: {_EXTRA} ({error})") from error
    return confluent_kafka


def hand_over(producer: "Producer", topic: str, **record: Any) -> None:
    """Put a record into the queue of what is sent, once there is room. Raises KafkaException."""
    while True:
        try:
            producer.produce(topic, **record)
            return
        except BufferError:
            producer.poll(_ROOM_S)


def is_fenced(kafka: Any, error: Any) -> bool:
    """Whether an error of Kafka's says that a later producer has the transactional id."""
    codes = kafka.KafkaError
    return error.code() in (codes._FENCED, codes.PRODUCER_FENCED, codes.INVALID_PRODUCER_EPOCH)


def is_unknown(kafka: Any, error: Any) -> bool:
    """Whether an error of Kafka's says that brokers do not know who connects by these credentials."""
    codes = kafka.KafkaError
    return error.code() in (codes._AUTHENTICATION, codes.SASL_AUTHENTICATION_FAILED)
