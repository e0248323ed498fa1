"""Computes how long an id is remembered."""

from oncegate.core.claims import IdState
from oncegate.index.claims.results import Explained


def kept_until_ms(known: Explained, horizon_ms: int) -> int | None:
    """Returns the wall-clock time in ms until which an id is kept at least; None if it is kept for ever or is not done
    or taken.

    Only done and taken ids retire. `horizon_ms`: the namespace's retention of ids; 0: for ever.
    """
    if not horizon_ms or known.state not in (IdState.DONE, IdState.TAKEN):
        return None
    return known.wall_ms + horizon_ms


__all__ = ["Explained", "kept_until_ms"]
