"""Finds columns by name as Spark does: exact matches first, else case-insensitive if exactly one column matches."""

from collections.abc import Iterable, Sequence
from typing import Any

CASE = "spark.sql.caseSensitive"


def is_case_sensitive(session: Any) -> bool:
    """True if the session's column names are case-sensitive."""
    return str(session.conf.get(CASE, "false")).lower() == "true"


def found(name: str, columns: Sequence[str], case_sensitive: bool = False) -> str | None:
    """Returns the column that a name refers to; None if there is none, or several that differ only by case."""
    if name in columns or case_sensitive:
        return name if name in columns else None
    alike = [column for column in columns if column.lower() == name.lower()]
    return alike[0] if len(alike) == 1 else None


def resolved(names: Iterable[str], columns: Sequence[str], case_sensitive: bool = False) -> tuple[str, ...]:
    """Returns the columns that these names refer to; unknown names are unchanged, for the caller to reject."""
    return tuple(found(name, columns, case_sensitive) or name for name in names)


def paired(ours: Sequence[str], theirs: Sequence[str]) -> dict[str, str]:
    """Maps each name of `theirs` to its column of `ours`, exact matches first; names without a column are left out."""
    pairs = {name: name for name in theirs if name in ours}
    left = [name for name in ours if name not in pairs]
    for name in theirs:
        column = found(name, left) if name not in pairs else None
        if column is not None and found(column, [other for other in theirs if other not in pairs]) == name:
            pairs[name] = column
    return pairs


def quoted(name: str) -> str:
    """Returns a name as a Python argument of `df.select`, with backquotes so that a dot is not a path into a struct."""
    plain = name.isidentifier()
    return f'"{name}"' if plain else '"`' + name.replace("`", "``").replace("\\", "\\\\").replace('"', '\\"') + '`"'
