"""Cuts lists of names into pages, the same for each transport.

A page follows a name, not a number: what is made or deleted meanwhile is told or not, and no other name is missed or
told twice.
"""

from bisect import bisect_right

# A page that a person looks at; whoever wants all of them asks again for the next.
LIMIT = 100
# An answer of some 250 KiB, at 249 characters a name.
LIMIT_MAX = 1_000


def page(names: list[str], after: str, limit: int) -> tuple[list[str], str | None]:
    """Returns the names behind `after`, `limit` at most, and `after` of the next page; None: this is the last.

    `names`: sorted. `after`: any text, also a name that is gone by now; "" for the first page.
    """
    first = bisect_right(names, after) if after else 0
    found = names[first : first + limit]
    return found, found[-1] if first + limit < len(names) else None
