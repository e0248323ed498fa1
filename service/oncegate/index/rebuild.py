"""The index is what the ledger's entries add up to: the fold that a start begins with."""

from collections.abc import Callable, Iterable

from oncegate.core.entries import Claimed, Completed, Entry, Released
from oncegate.index.claims import ClaimIndex


def rebuild(
    entries: Iterable[tuple[int, Entry]], claims: ClaimIndex, now_ms: int, *others: Callable[[int, Entry], object]
) -> int:
    """Fold (position, entry) pairs, in the ledger's order, into an empty index; the last position, 0 for none.

    `others` see every entry that is not a claim's alone. Then every open claim has a full lease from `now_ms`:
    renewals are not in the ledger, so nobody can know how much of it was left.
    Raises Overloaded: the rows' width cannot hold what is open or done.
    """
    position = 0
    for position, entry in entries:
        undo = claims.apply(position, entry, now_ms)
        if undo is not None:
            claims.settle_undo(undo)
        if not isinstance(entry, Claimed | Completed | Released):
            for other in others:
                other(position, entry)
    claims.reset_leases(now_ms)
    return position
