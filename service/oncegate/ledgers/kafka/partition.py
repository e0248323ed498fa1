"""Names a partition of a topic."""

from typing import NamedTuple


class Partition(NamedTuple):
    """Names a partition of a topic."""

    topic: str
    number: int
