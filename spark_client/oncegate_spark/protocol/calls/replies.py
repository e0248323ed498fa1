"""What replies mean that several calls have alike."""

import json
from typing import Any
from urllib.parse import unquote

from oncegate_spark.protocol.answers import Produced, ProducedOffsets
from oncegate_spark.protocol.calls.requests import ID_SET
from oncegate_spark.protocol.effort import Reply
from oncegate_spark.protocol.packed.verdicts import Verdicts

_OFFSETS = "oncegate-offsets"


def nothing_of(reply: Reply) -> None:
    """Being answered by a gateway is all there is to know. Raises ValueError for the page of somebody on the way."""
    if "html" in reply.headers.get("content-type", ""):
        raise ValueError("a page of HTML, as no gateway answers")


def members_of(reply: Reply) -> dict[str, Any]:
    """Reads a JSON document as it is."""
    return dict(json.loads(reply.body))


def verdicts_of(reply: Reply, count: int, locate: bool = False) -> Verdicts:
    """Reads a packed answer to `count` ids or sequences. Raises Refused."""
    id_set = reply.headers.get(ID_SET.lower())
    return Verdicts.read(reply.body, count, None if id_set is None else unquote(id_set), locate)


def produced_of(reply: Reply, id_count: int | None, locate: bool = False) -> Produced:
    """Reads the answer to a produce request.

    `id_count`: how many rows were sent with ids; None without. `locate`: the firsts of duplicates were asked for.
    """
    if id_count is None:
        document = json.loads(reply.body)
        return Produced(int(document["rows"]), offsets_of(document))
    offsets, before = _ranges(reply, _OFFSETS), _ranges(reply, f"{_OFFSETS}-before")
    return Produced(int(reply.headers["oncegate-rows"]), offsets, verdicts_of(reply, id_count, locate), before)


def offsets_of(document: dict[str, Any]) -> tuple[ProducedOffsets, ...]:
    """Reads where rows were written, from a JSON document."""
    return tuple(
        ProducedOffsets(member["partition"], member["first_offset"], member["rows"], member.get("topic"))
        for member in document["offsets"]
    )


def _ranges(reply: Reply, name: str) -> tuple[ProducedOffsets, ...]:
    ranges = [item for item in reply.headers.get(name, "").split(",") if item.strip()]
    topics: list[str | None] = [unquote(item) for item in reply.headers.get(f"{name}-topics", "").split(",") if item]
    numbers = (tuple(int(number) for number in item.split(":")) for item in ranges)
    return tuple(
        ProducedOffsets(partition, first, rows, topic)
        for (partition, first, rows), topic in zip(numbers, topics or [None] * len(ranges), strict=True)
    )
