"""Renewal of a lease while the work under it runs, as steps for both clients. No I/O."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from oncegate_spark.errors import OncegateError
from oncegate_spark.protocol.answers import Claimed
from oncegate_spark.protocol.calls.namespace import Calls
from oncegate_spark.protocol.calls.steps import Pause, Steps

WRITE_LEASES_MAX = 10  # a write() that takes longer is stuck: let another attempt have its ids

log = logging.getLogger("oncegate_spark")


@dataclass(frozen=True)
class ClaimLease:
    """A lease to be renewed.

    what       names the claim in log lines
    began_ms   start of the answered try on the client's clock, from which the lease runs
    lease_ms   length of the lease
    renew      returns the steps of a request for a full lease from now, given the calls and a timeout in ms
    """

    what: str
    began_ms: int
    lease_ms: int
    renew: Callable[[Calls, int], Steps[Any]]


def claim_lease(claimed: Claimed) -> ClaimLease | None:
    """Returns the lease of a claim; None if nothing was granted."""
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
    """Renews a lease three times per lease period, until the caller stops or ten periods have passed.

    The limit keeps a stuck writer from holding ids for ever.
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
    log.warning("write() has run for %d leases; %s is no longer renewed", WRITE_LEASES_MAX, lease.what)
