"""What an audit reads: rows with an id, and where they say so, when they were written, by which attempt and batch."""

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import pyarrow as pa

from oncegate.arraytypes import I64, U32


class AuditRows(NamedTuple):
    """Holds some rows: ids as text or bytes; when each was written, ms of the wall clock, int64 (n,).

    attempts, batches: numbers that stand for who wrote each, and in which batch, uint32 (n,); 0: nobody says.
    """

    ids: pa.Table
    times: I64
    attempts: U32
    batches: U32


class AuditSource(Protocol):
    """Gives the rows of a table, or of a topic."""

    @property
    def total(self) -> int | None:
        """Returns how many rows there are, None: that has to be read."""

    @property
    def is_timed(self) -> bool:
        """Tells whether rows say when they were written."""

    @property
    def has_writers(self) -> bool:
        """Tells whether rows say who wrote them."""

    def rows(self) -> Iterator[AuditRows]:
        """Yields all rows, each once."""
