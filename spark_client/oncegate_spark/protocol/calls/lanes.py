"""Calls for lanes, through which a client writes a producer's rows into a Kafka topic itself. No I/O."""

import json
from collections.abc import Mapping
from urllib.parse import quote

from oncegate_spark.protocol.answers import OpenedLane
from oncegate_spark.protocol.calls.namespace import Calls
from oncegate_spark.protocol.calls.producers import SOURCE_ID, checked, with_newer
from oncegate_spark.protocol.calls.steps import JSON, Steps
from oncegate_spark.protocol.effort import Reply

SequenceSpans = tuple[tuple[int, int], ...]


def open_lane(calls: Calls, topic: str, producer: str, source_id: str | None = None) -> Steps[OpenedLane]:
    """Opens a lane, or returns the existing one; the answer never changes. Raises BadOption before anything is sent."""
    path, what = _path(topic, "open"), f"opening of the lane of {producer} to {topic}"
    fields = {"producer": checked(producer, "producer")}

    def read(reply: Reply) -> OpenedLane:
        document = json.loads(reply.body)
        names = ("lane", "brokers", "topic", "partition", "transactional_id")
        return OpenedLane(ledger=bytes.fromhex(document["ledger"]), **{name: document[name] for name in names})

    def ask(members: Mapping[str, object]) -> Steps[OpenedLane]:
        body = json.dumps(members).encode()
        request = calls.post(path, what, "whether there is a lane; asking again is harmless", JSON, body)
        return calls.send(request, read)

    return with_newer(ask, fields, SOURCE_ID, source_id)


def ask_lane(
    calls: Calls,
    topic: str,
    producer: str,
    first: int,
    last: int,
    acked: int | None = None,
    topic_id: str | None = None,
) -> Steps[SequenceSpans]:
    """Returns the written sequences from `first` to `last` as inclusive spans, in order."""
    path, what = _path(topic, "ask"), f"question about {producer} in {topic}, sequences {first} to {last}"
    fields: dict[str, object] = {"producer": checked(producer, "producer"), "first": first, "last": last}
    if acked is not None:
        fields["acked"] = acked

    def read(reply: Reply) -> SequenceSpans:
        return tuple((low, high) for low, high in json.loads(reply.body)["duplicates"])

    def ask(members: Mapping[str, object]) -> Steps[SequenceSpans]:
        body = json.dumps(members).encode()
        request = calls.post(path, what, "whether what is acked is; asking again is harmless", JSON, body)
        return calls.send(request, read)

    return with_newer(ask, fields, "topic_id", topic_id)


def _path(topic: str, verb: str) -> str:
    return f"/topics/{quote(checked(topic, 'topic'), safe='')}/lanes:{verb}"
