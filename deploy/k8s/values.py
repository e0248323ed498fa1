"""Reads the chart's values.yaml with its comments and defaults."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

CHART = Path(__file__).parents[2] / "helm/oncegate"
# Kubernetes objects, or maps with user-defined names: their contents are not values of the chart.
OPAQUE = frozenset({"resources", "metrics.dashboards.labels"})


@dataclass(frozen=True)
class Value:
    """One value by its dotted path; `comment` is empty if there is none above it."""

    path: str
    default: Any
    comment: str

    @property
    def is_group(self) -> bool:
        """True if the values below it are the chart's own."""
        return isinstance(self.default, dict) and bool(self.default) and self.path not in OPAQUE


def values() -> list[Value]:
    """Returns every value of the chart, groups before their contents."""
    text = (CHART / "values.yaml").read_text()
    return list(_below(yaml.compose(text), yaml.safe_load(text), text.splitlines(), ""))


def _below(node: yaml.MappingNode, loaded: dict[str, Any], lines: list[str], prefix: str) -> Iterator[Value]:
    for key, child in node.value:
        value = Value(f"{prefix}{key.value}", loaded[key.value], _comment(lines, key.start_mark.line))
        yield value
        if value.is_group:
            yield from _below(child, value.default, lines, f"{value.path}.")


def _comment(lines: list[str], line: int) -> str:
    """Returns the comment right above a line."""
    first = line
    while first and lines[first - 1].lstrip().startswith("# "):
        first -= 1
    return " ".join(text.lstrip().removeprefix("# ") for text in lines[first:line])
