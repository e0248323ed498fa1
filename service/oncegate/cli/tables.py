"""Tables for a person: nothing of a cell is cut off, however narrow the terminal is, or where the output is a pipe."""

from typing import Literal

from rich.table import Column, Table


def column(name: str = "", justify: Literal["left", "right"] = "left") -> Column:
    """Makes a column whose long words go on in the next line, where rich would cut them off."""
    return Column(name, justify=justify, overflow="fold")


def table_of(*columns: str | Column, title: str | None = None) -> Table:
    """Makes an empty table of such columns."""
    return Table(*(column(entry) if isinstance(entry, str) else entry for entry in columns), title=title)
