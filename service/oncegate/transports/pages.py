"""Cuts lists of names and of intervals into pages for every transport.

A page starts after a name or a sequence, not at an index of the list. An item created or deleted between two pages may
be listed or not; every other item is listed exactly once.
"""

from bisect import bisect_right
from collections.abc import Sequence

import numpy as np

from oncegate.arraytypes import U64

# Default for people; a program requests page after page.
LIMIT = 100
# A response of some 250 KiB, at 249 characters per name.
LIMIT_MAX = 1_000


def page(names: list[str], after: str, limit: int) -> tuple[list[str], str | None]:
    """Returns at most `limit` names after `after`, and the next page's `after`, which is None on the last page.

    `names`: sorted. `after`: any text, also a deleted name; "" for the first page.
    """
    first = bisect_right(names, after) if after else 0
    found = names[first : first + limit]
    return found, found[-1] if first + limit < len(names) else None


def page_of_intervals(lists: Sequence[U64], after: int | None, limit: int) -> tuple[list[U64], int | None]:
    """Returns each list's intervals that start after `after`, and the next page's `after`, which is None on the last
    page.

    `lists`: of intervals, shape (k, 2), ascending. A page has at most `limit` intervals of each list. All lists end at
    the same sequence, that of the shortest page, so that one sequence continues every list.
    """
    first = None if after is None else np.uint64(after)
    behind = [spans if first is None else spans[spans[:, 0] > first] for spans in lists]
    cut = [int(spans[limit - 1, 0]) for spans in behind if len(spans) > limit]
    if not cut:
        return behind, None
    end = min(cut)
    return [spans[spans[:, 0] <= np.uint64(end)] for spans in behind], end
