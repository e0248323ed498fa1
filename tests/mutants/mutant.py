"""Planted bugs, and the tests that catch them."""

from dataclasses import dataclass
from pathlib import Path

from tests.mutants.edits import Edit, Text

# Random walks over many modules: they find bugs by chance that no module test checks, and do not locate them.
WALKS = (
    "tests/model/",
    "tests/faults/simulation/",
    "tests/faults/ledger/test_walk.py",
    "tests/index/claims/test_against_a_dict.py",
    "tests/index/claims/test_row_sharing.py::test_an_index_that_pools_answers_like_one_that_does_not",
    "tests/index/lsm/test_eviction.py::test_no_answer_reveals",
)


@dataclass(frozen=True)
class Mutant:
    """Holds a bug: edits with their addresses, and the tests of which one must fail."""

    name: str
    edits: tuple[tuple[str, Edit | Text], ...]
    tests: tuple[str, ...]

    @property
    def paths(self) -> tuple[str, ...]:
        """The files that the bug is in, each once."""
        return tuple(dict.fromkeys(edit.path(address) for address, edit in self.edits))

    def planted(self, root: Path) -> dict[str, str]:
        """Returns the files with the bug, by path below `root`. LookupError: an edit has no place, or several."""
        sources: dict[str, str] = {}
        for address, edit in self.edits:
            path = edit.path(address)
            source = sources[path] if path in sources else (root / path).read_text()
            sources[path] = edit.apply(source, address)
        return sources

    @property
    def seen_by(self) -> str:
        """`module`: a module's own test catches it; `walk`: only a walk does."""
        return "walk" if all(test.startswith(WALKS) for test in self.tests) else "module"


def one(name: str, address: str, edit: Edit | Text, *tests: str) -> Mutant:
    """A bug of one edit."""
    return Mutant(name, ((address, edit),), tests)
