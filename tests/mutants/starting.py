"""Planted bugs of a start: what it leaves out, and how it reads a ledger."""

from tests.mutants.planted import Mutant, one

STARTING: tuple[Mutant, ...] = (
    one(
        "a start with pandas",
        "service/oncegate/__main__.py",
        "    sys.meta_path.insert(0, WithoutPandas())\n",
        "",
        "tests/cli/test_start.py",
    ),
)
