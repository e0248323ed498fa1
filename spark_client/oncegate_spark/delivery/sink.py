"""Interface of a sink for `Delivery`, which writes records and returns those it has; and a sink
made of two functions.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from oncegate_spark.errors import BadId, BadOption, InDoubt
from oncegate_spark.protocol.codecs import IDS_MAX


@dataclass(frozen=True)
class Record:
    """An id, a non-empty text, with its content; the sink defines valid bodies."""

    id: str
    body: Any = None


class Sink(Protocol):
    """Accepts records from one thread. `records_max`: number of records written together, all or nothing."""

    records_max: int

    def write(self, records: Sequence[Record]) -> None:
        """Writes records; returns once all of them are durable.

        Raises SinkRefused if none is written and none will be by this call, Fenced if a newer writer has replaced this
        one. After any other exception the effect is unknown, and `find` is called.
        """

    def find(self, ids: Sequence[str]) -> set[str]:
        """Returns the ids that are durable, after fencing earlier writers of them.

        Each of the others may be written again: whatever an earlier writer has sent or still sends of it must not add a
        copy. Raises any exception if the sink cannot tell; the ids stay in doubt.
        """

    def close(self) -> None:
        """Closes connections; a later call may open new ones."""


def checked(records: Sequence[Record], sink: Sink) -> int:
    """Returns the number of records per claim. Raises BadId and BadOption before anything is sent."""
    for record in records:
        if not isinstance(record.id, str) or not record.id:
            raise BadId(f"the id of a record is {record.id!r}; it must be a non-empty text; nothing was written")
    if sink.records_max < 1:
        raise BadOption(f"records_max of the sink is {sink.records_max}; it must be at least 1; nothing was written")
    return min(sink.records_max, IDS_MAX)


class FunctionSink:
    """Writes with one function and finds with another, in portions of `records_max` records.

    `write` and `find` behave like those of `Sink`.

    Guarantee: once if `find` is correct, and if a writer that resumes after its lease has no further effect; otherwise
    at least once, bounded by the number of takeovers. Without `find` records in doubt raise InDoubt, until they are
    resolved with `oncegate resolve` or by a Resolver with a sink that has `find`.
    """

    def __init__(
        self,
        write: Callable[[Sequence[Record]], None],
        find: Callable[[Sequence[str]], set[str]] | None = None,
        *,
        records_max: int = 1,
    ) -> None:
        self.records_max = records_max
        self._write, self._find = write, find

    def write(self, records: Sequence[Record]) -> None:
        self._write(records)

    def find(self, ids: Sequence[str]) -> set[str]:
        """Calls the function. Raises InDoubt without one."""
        if self._find is None:
            raise InDoubt(
                f"unknown: whether {len(ids)} records were written, the first {ids[0]!r}: their writer is gone, and "
                "this sink has no find() to ask; check the sink, and run `oncegate resolve`",
                ids=list(ids),
            )
        return self._find(ids)

    def close(self) -> None:
        """Does nothing: the functions own their resources."""
