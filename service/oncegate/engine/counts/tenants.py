"""Bounds what one tenant may bring, over all of its namespaces, credentials and both doors.

A request is of the tenant that its credential names, and nothing else decides that. A door notes the tenant before it
reads anything (`set_current_tenant`); the engine finds it there (`current_tenant`). Requests that need no credential
are of no tenant.
"""

from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import NamedTuple

from oncegate.core.errors import QuotaExceeded, TooManyNamespaces
from oncegate.engine.counts.bucket import Bucket
from oncegate.engine.limits import Limits
from oncegate.engine.names import ALL_NAMESPACES
from oncegate.ports import Clock

# Far more than have a credential each; of more the one that came first begins its second anew.
TENANTS_MAX = 10_000
# What a credential says: the tenant, and the namespaces that it names.
Whose = tuple[str, frozenset[str]]


class _Rates(NamedTuple):
    ids: Bucket
    size_bytes: Bucket


class Tenant:
    """Says what is left of one tenant's quotas. `namespaces`: those that its credential names; `*`: all."""

    def __init__(self, rates: _Rates, limits: Limits, namespaces: frozenset[str], open_claims: Callable[[], int]):
        self._rates, self._limits, self._open_claims = rates, limits, open_claims
        self.namespaces = namespaces

    def ids_wait_ms(self) -> int:
        """Returns after how long it may bring further ids, 0 for now."""
        return self._rates.ids.wait_ms()

    def bytes_wait_ms(self) -> int:
        """Returns after how long it may bring further bodies, 0 for now."""
        return self._rates.size_bytes.wait_ms()

    def take_ids(self, count: int) -> None:
        """Takes so many ids of its rate."""
        self._rates.ids.take(count)

    def take_bytes(self, count: int) -> None:
        """Takes so many bytes of its rate."""
        self._rates.size_bytes.take(count)

    def has_room(self, claims: int = 1) -> bool:
        """Tells whether so many more claims may be open. It asks each of its namespaces, some 100 ns each."""
        most = self._limits.tenant_open_claims
        return not most or self._open_claims() + claims <= most

    def check_claims(self) -> None:
        """Raises QuotaExceeded where no further claim may be open: nothing was written."""
        if not self.has_room():
            raise QuotaExceeded(
                f"{self._limits.tenant_open_claims} claims of this tenant are open (`tenant_open_claims` of "
                "/v1/limits); nothing was written"
            )

    def check_namespaces(self, there: Iterable[str]) -> None:
        """Raises TooManyNamespaces where it may have none beside those that are there."""
        most = self._limits.tenant_namespaces
        if most and sum(1 for name in there if sees(self.namespaces, name)) >= most:
            raise TooManyNamespaces(
                f"this tenant has {most} namespaces, as many as it may have (`tenant_namespaces` of /v1/limits); "
                "nothing was made"
            )


class Tenants:
    """Knows the tenants of one gateway by their names. `open_claims`: how many there are in these namespaces."""

    def __init__(self, limits: Limits, clock: Clock, open_claims: Callable[[frozenset[str]], int]) -> None:
        self._limits, self._clock, self._open_claims = limits, clock, open_claims
        self._rates: dict[str, _Rates] = {}
        bounds = limits.tenant_ids_per_second, limits.tenant_bytes_per_second
        self._is_bounded = any((*bounds, limits.tenant_open_claims, limits.tenant_namespaces))

    def of(self, whose: Whose | None) -> Tenant | None:
        """Returns the tenant of a credential; None: there is none, or no quota is of tenants."""
        if whose is None or not self._is_bounded:
            return None
        name, namespaces = whose
        rates = self._rates.get(name)
        if rates is None:
            if len(self._rates) >= TENANTS_MAX:
                self._rates.pop(next(iter(self._rates)))
            limits = self._limits
            of_ids, of_bytes = limits.tenant_ids_per_second, limits.tenant_bytes_per_second
            rates = self._rates[name] = _Rates(Bucket(of_ids, self._clock), Bucket(of_bytes, self._clock))
        return Tenant(rates, self._limits, namespaces, lambda: self._open_claims(namespaces))


def sees(namespaces: frozenset[str], name: str) -> bool:
    """Tells whether a credential of these namespaces is one of this namespace."""
    return ALL_NAMESPACES in namespaces or name in namespaces


_CURRENT: ContextVar[Tenant | None] = ContextVar("tenant", default=None)


def set_current_tenant(tenant: Tenant | None) -> None:
    """Notes the tenant whose request this task answers; None: nobody's, or no quota is of tenants."""
    _CURRENT.set(tenant)


def current_tenant() -> Tenant | None:
    """Returns the tenant whose request this task answers; None: nobody's, or no quota is of tenants."""
    return _CURRENT.get()
