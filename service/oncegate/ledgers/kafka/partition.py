"""Defines the type of a topic's partition."""

from typing import NamedTuple


class Partition(NamedTuple):
    """A partition of a topic."""

    topic: str
    number: int
