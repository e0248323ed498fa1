"""Cuts lists of names and of intervals into pages, the same for each transport.

A page follows a name, or a sequence, and no place in the list: what is made or deleted meanwhile is told or not, and no
other one is missed or told twice.
"""

from bisect import bisect_right
from collections.abc import Sequence

import numpy as np

from oncegate.arraytypes import U64

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


def page_of_intervals(lists: Sequence[U64], after: int | None, limit: int) -> tuple[list[U64], int | None]:
    """Returns the intervals of each list that begin behind `after`, and `after` of the next page; None: the last one.

    `lists`: of intervals, shape (k, 2), in order. No list gives more than `limit`; all are told as far as the first
    that is cut, so that one sequence says where every list goes on.
    """
    first = None if after is None else np.uint64(after)
    behind = [spans if first is None else spans[spans[:, 0] > first] for spans in lists]
    cut = [int(spans[limit - 1, 0]) for spans in behind if len(spans) > limit]
    if not cut:
        return behind, None
    end = min(cut)
    return [spans[spans[:, 0] <= np.uint64(end)] for spans in behind], end
