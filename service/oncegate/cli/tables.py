"""Builds tables whose cells are never truncated, neither on a narrow terminal nor in a pipe."""

from typing import Literal

from rich.table import Column, Table


def column(name: str = "", justify: Literal["left", "right"] = "left") -> Column:
    """Returns a column that wraps long words, which rich would truncate."""
    return Column(name, justify=justify, overflow="fold")


def table_of(*columns: str | Column, title: str | None = None) -> Table:
    return Table(*(column(entry) if isinstance(entry, str) else entry for entry in columns), title=title)
