"""Bounds how much a namespace, and a tenant, may bring in a second, so that one leaves room for the others.

Refusals come before any effect. What settles a claim is counted and never refused: its lease would run out, and then
its ids may be written twice.
"""

from oncegate.core.errors import QuotaExceeded
from oncegate.engine.counters import QUOTA_BYTES, QUOTA_IDS, QUOTA_TENANT_BYTES, QUOTA_TENANT_IDS, CounterRow
from oncegate.engine.counts.bucket import Bucket
from oncegate.engine.counts.counts import Counts
from oncegate.engine.counts.tenants import current_tenant
from oncegate.engine.limits import KIB, Limits
from oncegate.ports import Clock

# Above what settles a claim, or claims a few ids: those are bounded by their ids.
NEVER_REFUSED_BYTES = 4 * KIB


class Rates:
    """Holds what is left, this second, of the ids and bytes that one namespace may bring, by whichever door and caller.

    What is taken of it is also taken of the rates of the tenant whose request it is, where that one has any.
    """

    def __init__(self, limits: Limits, clock: Clock, counts: Counts) -> None:
        self._limits, self._counts = limits, counts
        self._ids, self._bytes = Bucket(limits.ids_per_second, clock), Bucket(limits.bytes_per_second, clock)

    def take_ids(self, count: int) -> None:
        """Takes so many ids, sequences or rows from the namespace's rate and from its caller's tenant's.

        It is called before they are decided on. Raises QuotaExceeded: nothing was taken or written.
        """
        tenant = current_tenant()
        if wait_ms := self._ids.wait_ms():
            raise self._refused(QUOTA_IDS, "namespace", "ids", "ids_per_second", wait_ms)
        if tenant is not None:
            if wait_ms := tenant.ids_wait_ms():
                raise self._refused(QUOTA_TENANT_IDS, "tenant", "ids", "tenant_ids_per_second", wait_ms)
            tenant.take_ids(count)
        self._ids.take(count)

    def take_bytes(self, count: int) -> None:
        """Takes the bytes of a body, as its head announced them, from both rates.

        Raises QuotaExceeded: nothing was taken, read or written; never for NEVER_REFUSED_BYTES or less.
        """
        tenant, is_refused = current_tenant(), count > NEVER_REFUSED_BYTES
        if (wait_ms := self._bytes.wait_ms()) and is_refused:
            raise self._refused(QUOTA_BYTES, "namespace", "bytes", "bytes_per_second", wait_ms)
        if tenant is not None:
            if (wait_ms := tenant.bytes_wait_ms()) and is_refused:
                raise self._refused(QUOTA_TENANT_BYTES, "tenant", "bytes", "tenant_bytes_per_second", wait_ms)
            tenant.take_bytes(count)
        self._bytes.take(count)

    def _refused(self, row: CounterRow, whose: str, what: str, limit: str, wait_ms: int) -> QuotaExceeded:
        self._counts.add(row)
        most = getattr(self._limits, limit)
        return QuotaExceeded(
            f"this {whose} brings more than {most} {what} a second (`{limit}` of /v1/limits); nothing was written",
            retry_after_ms=wait_ms,
        )
