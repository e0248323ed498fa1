"""How a lease is renewed while the work under it goes on, as steps that both clients take. No I/O."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from oncegate_spark.errors import OncegateError
from oncegate_spark.protocol.answers import Claimed
from oncegate_spark.protocol.calls.namespace import Calls
from oncegate_spark.protocol.calls.steps import Pause, Steps

WRITE_LEASES_MAX = 10  # a write() that takes longer is stuck: let another attempt have the ids

log = logging.getLogger("oncegate_spark")


@dataclass(frozen=True)
class ClaimLease:
    """A lease that is to be renewed.

    what       what it is of, for a person
    began_ms   when the answered try began, on the client's clock: the lease runs from there
    lease_ms   how long it runs
    renew      the steps of a request for a full lease from now on; takes the calls and a timeout in ms
    """

    what: str
    began_ms: int
    lease_ms: int
    renew: Callable[[Calls, int], Steps[Any]]


def claim_lease(claimed: Claimed) -> ClaimLease | None:
    """The lease of a claim; None where nothing was granted."""
    claim = claimed.claim
    if claim is None:
        return None
    named: str = claim
    return ClaimLease(
        f"claim {named}",
        claimed.began_ms,
        claimed.verdicts.lease_ms,
        lambda calls, timeout_ms: calls.settle(named, "renew", timeout_ms),
    )


def renewals(calls: Calls, lease: ClaimLease | None) -> Steps[None]:
    """Renew a lease at a third of it, as steps, until nobody takes them further or the work takes too long.

    Work that takes longer than ten leases is no longer renewed: a stuck writer must not hold ids for ever.
    """
    if lease is None:
        return
    lease_ms, now_ms = lease.lease_ms, calls.tries.now_ms
    third_ms, ends_ms = max(1, lease_ms // 3), now_ms() + WRITE_LEASES_MAX * lease_ms
    yield Pause(max(0, lease.began_ms + third_ms - now_ms()))
    while now_ms() < ends_ms:
        try:
            yield from lease.renew(calls, third_ms)
        except OncegateError as error:
            log.warning("%s could not be renewed: %s", lease.what, error)
        yield Pause(third_ms)
    log.warning("write() has taken %d leases; %s is no longer renewed", WRITE_LEASES_MAX, lease.what)
