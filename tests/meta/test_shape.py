"""Rules about the shape of the code; sizes are signals, which `python scripts/structure.py --large` prints."""

import ast
from collections import Counter
from pathlib import Path

import pytest

from tests.support.tree import sources


def test_an_option_that_several_verbs_have_is_declared_once() -> None:
    """Two declarations of one option would diverge in help, name or refusals."""
    declared = Counter(
        ast.unparse(node.value)
        for path in sources("service/oncegate/cli")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.Assign) and "typer.Option(" in ast.unparse(node.value)
    )
    assert declared
    assert not {option: count for option, count in declared.items() if count > 1}


@pytest.mark.parametrize("path", sources("service/oncegate/ports"), ids=lambda path: path.name)
def test_a_port_has_at_most_four_members(path: Path) -> None:
    """Properties count as members."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef) and any(getattr(base, "id", "") == "Protocol" for base in node.bases):
            members = [
                item.target.id if isinstance(item, ast.AnnAssign) else item.name  # type: ignore[attr-defined]
                for item in node.body
                if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef | ast.AnnAssign)
            ]
            assert 1 <= len(members) <= 4, (node.name, members)
