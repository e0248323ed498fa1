"""What a planted bug is, and who catches it."""

from dataclasses import dataclass

# Random walks over much of the house: with luck they find what no module's own test looks at, and say little of where.
WALKS = (
    "tests/model/",
    "tests/faults/simulation/",
    "tests/faults/ledger/test_walk.py",
    "tests/index/claims/test_against_a_dict.py",
    "tests/index/claims/test_row_sharing.py::test_nobody_can_tell",
    "tests/index/lsm/test_eviction.py::test_no_answer_tells",
)


@dataclass(frozen=True)
class Mutant:
    """`edits`: (path, text that stands there just once, text in its place)."""

    name: str
    edits: tuple[tuple[str, str, str], ...]
    tests: tuple[str, ...]

    @property
    def seen_by(self) -> str:
        """`module`: a module's own test catches it; `walk`: only a walk does."""
        return "walk" if all(test.startswith(WALKS) for test in self.tests) else "module"


def one(name: str, path: str, old: str, new: str, *tests: str) -> Mutant:
    """A bug of one edit."""
    return Mutant(name, ((path, old, new),), tests)
