"""Defines the cell type that every decision table of this package uses."""

from dataclasses import dataclass
from typing import Generic, TypeVar

E = TypeVar("E", covariant=True)


@dataclass(frozen=True)
class Cell(Generic[E]):
    """A cell of a decision table: the effect, the rule that demands it and the reason for the rule."""

    effect: E
    rule: str
    reason: str
