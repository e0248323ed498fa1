"""Holds rows that wait for the commit of their batch in memory, beside the topic that they lie in.

A commit of a usual batch reads nothing back then: that costs as much as encoding the rows does.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from oncegate.ledgers.catalog import Location
from oncegate.ledgers.kafka.rows.stream import Piece


@dataclass
class StageCache:
    """Keeps the newest blobs of all ledgers of a process, `bytes_max` together; the oldest go first.

    Only what an append has written may be put in: under its location it is never other bytes. What is missing here is
    read from the topic.
    """

    bytes_max: int = 0
    held_bytes: int = field(default=0, init=False)
    _blobs: dict[tuple[str, Location], Piece] = field(default_factory=dict, init=False)

    def put(self, ledger: str, at: Location, data: Piece) -> None:
        """Keeps a blob of a ledger; one that is larger than the bound is not kept."""
        if len(data) > self.bytes_max or not data:
            return
        self._drop((ledger, at))
        self._blobs[ledger, at] = data
        self.held_bytes += len(data)
        while self.held_bytes > self.bytes_max:
            self._drop(next(iter(self._blobs)))

    def get(self, ledger: str, at: Location) -> Piece | None:
        """Returns the bytes at a location; None where they are not kept."""
        return self._blobs.get((ledger, at))

    def drop(self, ledger: str, locations: Iterable[Location]) -> None:
        """Lets go of blobs that nobody reads again."""
        for at in locations:
            self._drop((ledger, at))

    def drop_all(self, ledger: str) -> None:
        """Lets go of all blobs of a ledger."""
        for key in [key for key in self._blobs if key[0] == ledger]:
            self._drop(key)

    def _drop(self, key: tuple[str, Location]) -> None:
        data = self._blobs.pop(key, None)
        self.held_bytes -= len(data) if data is not None else 0
