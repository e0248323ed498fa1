"""Defines where duplicates are told one by one, for whoever looks into why they come."""

from collections.abc import Sequence
from typing import Protocol


class NotTold(Exception):
    """Says in its text why records of duplicates were not written; some of them may be there all the same."""


class DuplicateTopic(Protocol):
    """Takes records of duplicates. Nothing rests on them: they may be lost, or come twice."""

    async def write(self, records: Sequence[tuple[bytes, bytes]]) -> None:
        """Writes records, a key and a value each, in their order. One call at a time; it ends within seconds.

        Raises:
            NotTold: they may be there or not; a later call may pass.
        """
