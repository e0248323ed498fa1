"""Log events have names; sentences are in their `message`."""

import ast
import re
from pathlib import Path

import pytest

from oncegate.runtime.logging import LEVELS
from tests.support.tree import name_of, sources

SERVICE = sources("service")
WRITES = {"event", "info", "warning", "error", "critical"}
LOGS = re.compile(r"(^|\.)_?(log|observer)$")  # `_LOG` is a logger of Python's


def events(path: Path) -> list[str]:
    """Returns the source of the first argument of each call that writes a log line."""
    calls = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
    return [
        ast.unparse(call.args[0])
        for call in calls
        if isinstance(call.func, ast.Attribute)
        and call.func.attr in WRITES
        and LOGS.search(ast.unparse(call.func.value))
        and call.args
    ]


@pytest.mark.parametrize("path", SERVICE, ids=name_of)
def test_a_log_event_has_a_name_and_is_no_sentence(path: Path) -> None:
    assert not [event for event in events(path) if not re.fullmatch(r"'[a-z_]+'|\w+", event)]


def test_each_event_with_a_level_is_logged_somewhere() -> None:
    strings = {
        node.value
        for path in SERVICE
        if path.name != "logging.py"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert not LEVELS.keys() - strings


def test_events_are_found() -> None:
    assert sum(len(events(path)) for path in SERVICE) > 50
