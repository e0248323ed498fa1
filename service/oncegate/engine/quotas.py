"""Limits the rates of each namespace and each tenant, so that none of them starves the others.

Each rate is a token bucket that holds one second and may go into debt. A request of any size is admitted while any
tokens are left, and later requests wait until its debt is paid. Thus the largest request passes under the smallest
rate, and none is split. Requests are refused before any effect. Completes, releases and renewals are counted but never
refused: otherwise their leases would expire, and their ids might be written twice.

The tenant of a request is named by its credential, whatever its namespace and transport. Requests without a credential
have no tenant.
"""

from collections.abc import Callable, Iterable

from oncegate.core.errors import QuotaExceeded, TooManyNamespaces
from oncegate.engine.counters import QUOTA_BYTES, QUOTA_IDS, QUOTA_TENANT_BYTES, QUOTA_TENANT_IDS, CounterRow
from oncegate.engine.limits import KIB, Limits
from oncegate.engine.names import ALL_NAMESPACES
from oncegate.ports import Clock

# Larger than a complete, a release or a claim of a few ids, which are bounded by the rate of ids.
NEVER_REFUSED_BYTES = 4 * KIB
# Far more than there are credentials. Above it the oldest tenant is dropped and begins again with a full second.
TENANTS_MAX = 10_000
# A credential's tenant, and the namespaces that it grants.
Whose = tuple[str, frozenset[str]]


class Bucket:
    """The remaining tokens of a rate limit; `per_second` 0 means unlimited."""

    __slots__ = ("_clock", "_left", "_per_second", "_since_ms")

    def __init__(self, per_second: int, clock: Clock) -> None:
        self._per_second, self._clock = per_second, clock
        self._left, self._since_ms = float(per_second), clock.monotonic_ms()

    def wait_ms(self) -> int:
        """Returns the milliseconds until tokens are available; 0 if some are available now."""
        if not self._per_second:
            return 0
        now_ms = self._clock.monotonic_ms()
        grown = (now_ms - self._since_ms) * self._per_second / 1_000
        self._left, self._since_ms = min(self._left + grown, float(self._per_second)), now_ms
        return 0 if self._left > 0 else int(-self._left * 1_000 / self._per_second) + 1

    def take(self, count: int) -> None:
        """Takes `count` tokens, even if fewer are left."""
        self._left -= count


class Tenant:
    """The remaining quotas of one tenant.

    namespaces: those that its credential grants; `*`: all.
    ids, size_bytes: the buckets of its rates.
    """

    def __init__(
        self,
        ids: Bucket,
        size_bytes: Bucket,
        limits: Limits,
        namespaces: frozenset[str],
        open_claims: Callable[[], int],
    ) -> None:
        self.ids, self.size_bytes, self._limits, self._open_claims = ids, size_bytes, limits, open_claims
        self.namespaces = namespaces

    def has_room(self, claims: int = 1) -> bool:
        """Returns whether the tenant may open that many more claims. Asks each of the tenant's namespaces, some 100 ns
        each."""
        most = self._limits.tenant_open_claims
        return not most or self._open_claims() + claims <= most

    def check_claims(self) -> None:
        """Raises QuotaExceeded if the tenant may open no further claim: nothing was written."""
        if not self.has_room():
            raise QuotaExceeded(
                f"{self._limits.tenant_open_claims} claims of this tenant are open (`tenant_open_claims` of "
                "/v1/limits); nothing was written"
            )

    def check_namespaces(self, there: Iterable[str]) -> None:
        """Raises TooManyNamespaces if `there` contains as many of the tenant's namespaces as it may have."""
        most = self._limits.tenant_namespaces
        if most and sum(1 for name in there if sees(self.namespaces, name)) >= most:
            raise TooManyNamespaces(
                f"this tenant has {most} namespaces, as many as it may have (`tenant_namespaces` of /v1/limits); "
                "nothing was made"
            )


class Rates:
    """The rates of one namespace, in ids and bytes, for all of its callers and transports.

    Takes from the rates of the request's tenant too, if it has one. count: called for each refusal.
    """

    def __init__(self, limits: Limits, clock: Clock, count: Callable[[CounterRow], None]) -> None:
        self._limits, self._count = limits, count
        self._ids, self._bytes = Bucket(limits.ids_per_second, clock), Bucket(limits.bytes_per_second, clock)

    def take_ids(self, count: int, tenant: Tenant | None = None) -> None:
        """Charges ids, sequences or rows to the rates of the namespace and of the tenant, before deciding on them.

        Raises QuotaExceeded: nothing was taken or written.
        """
        if tenant is None and not self._limits.ids_per_second:
            return
        if wait_ms := self._ids.wait_ms():
            raise self._refused(QUOTA_IDS, "namespace", "ids", "ids_per_second", wait_ms)
        if tenant is not None:
            if wait_ms := tenant.ids.wait_ms():
                raise self._refused(QUOTA_TENANT_IDS, "tenant", "ids", "tenant_ids_per_second", wait_ms)
            tenant.ids.take(count)
        self._ids.take(count)

    def take_bytes(self, count: int, tenant: Tenant | None = None) -> None:
        """Charges the announced size of a body to the rates of the namespace and of the tenant.

        Raises QuotaExceeded: nothing was taken, read or written; never for NEVER_REFUSED_BYTES or less.
        """
        if tenant is None and not self._limits.bytes_per_second:
            return
        is_refused = count > NEVER_REFUSED_BYTES
        if (wait_ms := self._bytes.wait_ms()) and is_refused:
            raise self._refused(QUOTA_BYTES, "namespace", "bytes", "bytes_per_second", wait_ms)
        if tenant is not None:
            if (wait_ms := tenant.size_bytes.wait_ms()) and is_refused:
                raise self._refused(QUOTA_TENANT_BYTES, "tenant", "bytes", "tenant_bytes_per_second", wait_ms)
            tenant.size_bytes.take(count)
        self._bytes.take(count)

    def _refused(self, row: CounterRow, whose: str, what: str, limit: str, wait_ms: int) -> QuotaExceeded:
        self._count(row)
        most = getattr(self._limits, limit)
        return QuotaExceeded(
            f"this {whose} brings more than {most} {what} a second (`{limit}` of /v1/limits); nothing was written",
            retry_after_ms=wait_ms,
        )


class Tenants:
    """The tenants of one gateway, by name. open_claims: returns the number of open claims in these namespaces."""

    def __init__(self, limits: Limits, clock: Clock, open_claims: Callable[[frozenset[str]], int]) -> None:
        self._limits, self._clock, self._open_claims = limits, clock, open_claims
        self._rates: dict[str, tuple[Bucket, Bucket]] = {}
        bounds = limits.tenant_ids_per_second, limits.tenant_bytes_per_second
        self._is_bounded = any((*bounds, limits.tenant_open_claims, limits.tenant_namespaces))

    def of(self, whose: Whose | None) -> Tenant | None:
        """Returns the tenant of a credential; None if it has no tenant or tenants have no quotas."""
        if whose is None or not self._is_bounded:
            return None
        name, namespaces = whose
        rates = self._rates.get(name)
        if rates is None:
            if len(self._rates) >= TENANTS_MAX:
                self._rates.pop(next(iter(self._rates)))
            limits = self._limits
            of_ids, of_bytes = limits.tenant_ids_per_second, limits.tenant_bytes_per_second
            rates = self._rates[name] = Bucket(of_ids, self._clock), Bucket(of_bytes, self._clock)
        return Tenant(*rates, self._limits, namespaces, lambda: self._open_claims(namespaces))


def sees(namespaces: frozenset[str], name: str) -> bool:
    return ALL_NAMESPACES in namespaces or name in namespaces
