"""One cell of a decision table, the same for every table of this package."""

from dataclasses import dataclass
from typing import Generic, TypeVar

E = TypeVar("E", covariant=True)


@dataclass(frozen=True)
class Cell(Generic[E]):
    """Holds one cell of a decision table: what happens, the rule that says so, and the reason for the rule."""

    effect: E
    rule: str
    reason: str
