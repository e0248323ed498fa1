"""Counters of what was answered about ids, the same for every verb."""

from collections import Counter

import numpy as np

from oncegate.arraytypes import U8
from oncegate.core.claims import Action
from oncegate.core.verdicts import Flag
from oncegate.index.table.arrays import SAME_INDEX

_COUNTER = {
    int(Action.GRANT): "granted",
    int(Action.TAKE_OVER): "granted",
    int(Action.GRANT_AGAIN): "granted_again",
    int(Action.DUPLICATE): "duplicates",
    int(Action.CONFLICT): "conflicts",
    int(Action.BUSY): "busy",
    int(Action.SAME): "same",
    SAME_INDEX: "same",
}

# Up to so many answers a list costs less than an array's functions do.
_FEW = 32
_OWN = int(Flag.OWN)


def count_verdicts(counts: Counter[str], actions: U8, verdicts: U8) -> None:
    """Add one request's answers: what was done about each id, and what was said of it."""
    if len(actions) <= _FEW:
        for action, verdict in zip(actions.tolist(), verdicts.tolist(), strict=True):
            counts["own_duplicates" if verdict & _OWN else _COUNTER[action]] += 1
        return
    by_action = np.bincount(actions, minlength=256)
    own = int(np.count_nonzero(verdicts & Flag.OWN))
    for action, name in _COUNTER.items():
        counts[name] += int(by_action[action])
    counts["duplicates"] -= own
    counts["own_duplicates"] += own
