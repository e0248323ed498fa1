"""What a planted bug is."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """`edits`: (path, text that stands there just once, text in its place)."""

    name: str
    edits: tuple[tuple[str, str, str], ...]
    tests: tuple[str, ...]


def one(name: str, path: str, old: str, new: str, *tests: str) -> Mutant:
    """A bug of one edit."""
    return Mutant(name, ((path, old, new),), tests)
