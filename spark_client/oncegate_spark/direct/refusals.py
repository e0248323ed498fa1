"""What Kafka's client says beside its calls, and which of it is a refusal of the user, which no repeat mends."""

from typing import Any

from oncegate_spark.errors import NOTHING, Refused
from oncegate_spark.kafka_client import is_unknown
from oncegate_spark.protocol.answers import OpenedLane

_RIGHTS = "`oncegate kafka plan --writer User:NAME --topic TOPIC` prints the rights that who writes needs"


class Heard:
    """Keeps what one producer's callbacks said: how its connections were refused, why its first record was."""

    def __init__(self, kafka: Any, topic: str, lane: OpenedLane, user: str) -> None:
        self._kafka = kafka
        self._topic, self._lane, self._user = topic, lane, user
        self._connection: Any = None
        self._record: Any = None

    def callbacks(self) -> dict[str, Any]:
        """Gives settings of librdkafka's; of records it is told errors alone."""
        return {"error_cb": self._told, "on_delivery": self._undelivered}

    @property
    def why(self) -> str:
        """Says why the first record was not taken; empty: all were, or nothing is known yet."""
        return "" if self._record is None else f" ({self._record.str()})"

    def refusal(self, error: Any) -> Refused | None:
        """Tells that brokers refuse this user, by a call's error or what was heard; None: it is something else."""
        for heard in (error, self._record, self._connection):
            if heard is not None and (meaning := self._meaning(heard)):
                return Refused(f"{meaning} ({heard.str()}){NOTHING}")
        return None

    def _meaning(self, error: Any) -> str | None:
        if is_unknown(self._kafka, error):
            return f"brokers do not know {self._user} by these credentials"
        codes = self._kafka.KafkaError
        wanted = {
            codes.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: f"transactional id {self._lane.transactional_id}",
            codes.TOPIC_AUTHORIZATION_FAILED: f"topic {self._topic}, or topic {self._lane.topic}",
        }
        what = wanted.get(error.code())
        return None if what is None else f"{self._user} lacks Describe or Write on {what}: {_RIGHTS}"

    def _told(self, error: Any) -> None:
        if self._meaning(error):  # brokers that hang up on who is refused are told as away, last of all
            self._connection = error

    def _undelivered(self, error: Any, _record: Any) -> None:
        self._record = self._record or error
