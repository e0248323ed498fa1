"""The modules of the engine that write to a ledger, which import rules cannot express."""

from pathlib import Path

import pytest

import oncegate.engine

ENGINE = Path(oncegate.engine.__file__).parent


@pytest.mark.parametrize(
    ("call", "files"),
    [
        # At a start the opening appends the entry of its epoch, before there is a group commit.
        ("ledger.append(", ["commit/group_commit.py", "recovery/shard_opening.py"]),
        ("ledger.compact(", ["maintenance/snapshotter.py"]),
    ],
)
def test_one_room_makes_each_change_of_a_ledger(call: str, files: list[str]) -> None:
    found = [str(path.relative_to(ENGINE)) for path in sorted(ENGINE.rglob("*.py")) if call in path.read_text()]
    assert found == files
