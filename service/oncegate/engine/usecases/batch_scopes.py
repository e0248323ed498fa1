"""scope = retry: ids that count only as long as their batch may be run again. Source: MillWheel (VLDB 2013)."""

import numpy as np
from numpy.typing import NDArray

from oncegate.core.entries.producers import Scoped
from oncegate.core.errors import BadRequest
from oncegate.core.verdicts import Verdict
from oncegate.engine.commit.journal import Journal
from oncegate.engine.counters import STALE
from oncegate.engine.names import check_name
from oncegate.engine.requests import Scope
from oncegate.index.producers.index import SEQUENCE_MAX


async def is_over(journal: Journal, scope: Scope) -> bool:
    """The batch was acked, durably: every id of it is STALE, whatever else is known of it.

    Raises BadRequest, TooLarge for a driver or a batch that can never be acked.
    """
    check_name("driver", scope.driver, journal.limits)
    if scope.batch > SEQUENCE_MAX:
        raise BadRequest(f"batch {scope.batch}: the highest is {SEQUENCE_MAX}; nothing was written")
    driver = journal.index.producers.drivers.get(scope.driver)
    if driver is None or scope.batch >= driver.batches:
        return False
    await journal.group_commit.durable(driver.position)
    return True


def stale(journal: Journal, count: int) -> tuple[NDArray[np.uint8], NDArray[np.uint32]]:
    """Verdicts and numbers of so many ids of a batch that is over."""
    journal.counts.add(STALE, count)
    return np.full(count, Verdict.STALE, np.uint8), np.zeros(count, np.uint32)


def scoped(scope: Scope | None, claim: bytes) -> list[Scoped]:
    """What follows the entry of a grant; `claim` zeros: of the entry before it."""
    return [] if scope is None else [Scoped(claim, scope.driver, scope.batch)]
