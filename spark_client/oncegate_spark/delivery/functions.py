"""Makes a sink of two functions of yours."""

from collections.abc import Callable, Sequence

from oncegate_spark.delivery.sink import Record
from oncegate_spark.errors import InDoubt


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
