"""Finds columns by name as Spark does: exactly, else without regard to case where just one column has that name."""

from collections.abc import Iterable, Sequence
from typing import Any

CASE = "spark.sql.caseSensitive"


def is_case_sensitive(session: Any) -> bool:
    """Whether a session tells columns apart by case."""
    return str(session.conf.get(CASE, "false")).lower() == "true"


def found(name: str, columns: Sequence[str], case_sensitive: bool = False) -> str | None:
    """The column that a name means; None where there is none, or several but for their case."""
    if name in columns or case_sensitive:
        return name if name in columns else None
    alike = [column for column in columns if column.lower() == name.lower()]
    return alike[0] if len(alike) == 1 else None


def resolved(names: Iterable[str], columns: Sequence[str], case_sensitive: bool = False) -> tuple[str, ...]:
    """The columns that these names mean; a name that means none stays as it is, for the caller to refuse."""
    return tuple(found(name, columns, case_sensitive) or name for name in names)


def paired(ours: Sequence[str], theirs: Sequence[str]) -> dict[str, str]:
    """For each name of `theirs` that a column of `ours` has: that column. Exact names come first."""
    pairs = {name: name for name in theirs if name in ours}
    left = [name for name in ours if name not in pairs]
    for name in theirs:
        column = found(name, left) if name not in pairs else None
        if column is not None and found(column, [other for other in theirs if other not in pairs]) == name:
            pairs[name] = column
    return pairs


def quoted(name: str) -> str:
    """The name as an argument of `df.select`, in Python: a dot in it is no path into a struct."""
    plain = name.isidentifier()
    return f'"{name}"' if plain else '"`' + name.replace("`", "``").replace("\\", "\\\\").replace('"', '\\"') + '`"'
