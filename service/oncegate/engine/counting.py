"""Counters of what was answered about ids, the same for every verb."""

from collections import Counter

import numpy as np

from oncegate.core.decisions import Action
from oncegate.core.verdicts import Flag
from oncegate.index.answers import Asked
from oncegate.index.claims import SAME_INDEX


def count_verdicts(counts: Counter[str], asked: Asked) -> None:
    """Add one request's answers."""
    by_action = np.bincount(asked.actions, minlength=256)
    own = int(np.count_nonzero(asked.verdicts & Flag.OWN))
    counts["granted"] += int(by_action[Action.GRANT]) + int(by_action[Action.TAKE_OVER])
    counts["granted_again"] += int(by_action[Action.GRANT_AGAIN])
    counts["duplicates"] += int(by_action[Action.DUPLICATE]) - own
    counts["own_duplicates"] += own
    counts["busy"] += int(by_action[Action.BUSY])
    counts["same"] += int(by_action[Action.SAME]) + int(by_action[SAME_INDEX])
