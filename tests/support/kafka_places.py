"""Writes rows with ids to a broker's topics by JSON, and compares the row offsets in the answers with the records."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterable
from typing import Any

from oncegate.ledgers.kafka.partition import Partition
from tests.support.gateway_process import GatewayProcess
from tests.support.kafka_broker import Broker

Record = dict[str, Any]


def produce(
    gateway: GatewayProcess, topic: str, records: Iterable[Record], token: int, *, locate: bool = False, **more: Any
) -> Any:
    """Writes rows whose id is their value, as a call of this attempt, and returns the answer."""
    message = {"token": f"{token:032x}", "call": 0, "id_col": ["value"], "records": list(records), **more}
    return post(gateway, f"/topics/{topic}/records:produce{'?locate=true' if locate else ''}", message)


def post(gateway: GatewayProcess, path: str, message: Any) -> Any:
    """Posts a message and returns the JSON answer. A refusal fails the test with its text."""
    request = urllib.request.Request(
        f"{gateway.url}/v1/namespaces/default{path}",
        json.dumps(message).encode(),
        {"Content-Type": "application/json", "Oncegate-Timeout-Ms": "30000"},
    )
    try:
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as refused:
        raise AssertionError(refused.read().decode()) from refused


class CommittedRecords:
    """The committed records by topic, partition and offset, as another client reads them."""

    def __init__(self, broker: Broker, partitions: dict[str, int]) -> None:
        self.values = {
            (topic, number, message.offset()): message.value().decode()
            for topic, count in partitions.items()
            for number in range(count)
            for message in broker.messages(Partition(topic, number))
        }

    def in_ranges(self, topic: str, ranges: Iterable[Any]) -> list[str]:
        """Returns the values at the `offsets` of an answer. Raises KeyError if a record is missing."""
        return [
            self.values[one.get("topic", topic), one["partition"], offset]
            for one in ranges
            for offset in range(one["first_offset"], one["first_offset"] + one["rows"])
        ]

    def at(self, place: Any) -> str:
        """Returns the value at the row offset of a verdict. Raises KeyError if there is no record."""
        return self.values[place["topic"], place["partition"], place["offset"]]

    def located(self, answer: Any) -> list[str | None]:
        """Returns the value at the row offset of each verdict, or None if the verdict has none."""
        return [self.at(one["place"]) if one.get("place") else None for one in answer["verdicts"]]
