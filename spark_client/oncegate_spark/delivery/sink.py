"""Says what a sink is to `Delivery`: it writes records, and can be asked which of them it has."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from oncegate_spark.errors import BadId, BadOption
from oncegate_spark.protocol.codecs import IDS_MAX


@dataclass(frozen=True)
class Record:
    """Pairs an id, a text that is not empty, with what is written under it; what a body may be is for the sink."""

    id: str
    body: Any = None


class Sink(Protocol):
    """Takes records of one thread. `records_max`: so many share one outcome, written together or not at all."""

    records_max: int

    def write(self, records: Sequence[Record]) -> None:
        """Write records, and return once all of them are durable.

        Raises SinkRefused where none of them is there and none will come of this call; Fenced where a newer writer has
        taken this one's place. After any other exception it is unknown, and `find` is asked.
        """

    def find(self, ids: Sequence[str]) -> set[str]:
        """Return those that are there and durable, having fenced whoever may still be writing them.

        Each of the others may be written again: what an earlier writer has sent of it, or sends yet, does not come to
        stand beside that. Raises anything where the sink does not say; the ids stay in doubt.
        """

    def close(self) -> None:
        """Let go of connections; the next call may open another one."""


def checked(records: Sequence[Record], sink: Sink) -> int:
    """Return how many records go into one claim. Raises BadId, BadOption before anything is asked."""
    for record in records:
        if not isinstance(record.id, str) or not record.id:
            raise BadId(f"the id of a record is {record.id!r}; it is a text that is not empty; nothing was written")
    if sink.records_max < 1:
        raise BadOption(f"records_max of the sink is {sink.records_max}; it is 1 or more; nothing was written")
    return min(sink.records_max, IDS_MAX)
