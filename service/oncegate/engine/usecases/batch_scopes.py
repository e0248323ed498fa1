"""Handles batch scopes (`scope = retry`), whose ids are kept only until their batch is acked. Source: MillWheel (VLDB
2013)."""

import numpy as np
from numpy.typing import NDArray

from oncegate.core.entries.producers import Scoped
from oncegate.core.errors import BadRequest
from oncegate.core.producers import SEQUENCE_MAX
from oncegate.core.verdicts import Verdict
from oncegate.engine.commit.journal import Journal
from oncegate.engine.counters import STALE
from oncegate.engine.names import check_name
from oncegate.engine.requests import Scope


async def is_over(journal: Journal, scope: Scope) -> bool:
    """Returns whether the batch was durably acked; if so, each of its ids is STALE, whatever its state.

    Raises BadRequest, TooLarge for a driver or a batch that can never be acked.
    """
    check_name("driver", scope.driver, journal.limits)
    if scope.batch > SEQUENCE_MAX:
        raise BadRequest(f"batch {scope.batch}: the highest is {SEQUENCE_MAX}; nothing was written")
    driver = journal.index.producers.drivers.get(scope.driver)
    if driver is None or not driver.is_over(scope.batch):
        return False
    await journal.group_commit.durable(driver.position)
    return True


def stale(journal: Journal, count: int) -> tuple[NDArray[np.uint8], NDArray[np.uint32]]:
    """Returns the verdicts, uint8[count], and numbers, uint32[count], of the ids of an acked batch, and counts them."""
    journal.counts.add(STALE, count)
    return np.full(count, Verdict.STALE, np.uint8), np.zeros(count, np.uint32)


def scoped(scope: Scope | None, claim: bytes) -> list[Scoped]:
    """Returns the entry to append after a grant in a batch scope, if `scope` is given; a `claim` of zeros means that
    the grant is the preceding entry."""
    return [] if scope is None else [Scoped(claim, scope.driver, scope.batch)]
