"""Defines a sink of `Delivery`: it writes records, and answers which of them it has; and a sink made of functions."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from oncegate_spark.errors import BadId, BadOption, InDoubt
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


class FunctionSink:
    """Writes by a function, and finds by another; `records_max` records are handed over at a time.

    write: as `Sink.write`. find: as `Sink.find`, the resolver: it says which ids are in the place that is written to.

    Promise: once, if `find` tells the truth, and what a writer that was silent for its whole lease sends afterwards
    does not take effect; at least once, bounded by takeovers, if it does. Without `find` records in doubt are left so,
    and InDoubt is raised, until somebody says: `oncegate resolve`, or a Resolver with a sink that can be asked.
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
        """Call the function."""
        self._write(records)

    def find(self, ids: Sequence[str]) -> set[str]:
        """Call the other function. Raises InDoubt without one."""
        if self._find is None:
            raise InDoubt(
                f"unknown: whether {len(ids)} records were written, the first {ids[0]!r}: their writer is gone, and "
                "this sink has no find() that could tell; look, and clear them by `oncegate resolve`",
                ids=list(ids),
            )
        return self._find(ids)

    def close(self) -> None:
        """Close nothing: what the functions use is theirs."""
