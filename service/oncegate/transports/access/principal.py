"""Represents the authenticated caller, whether by API key or token."""

from dataclasses import dataclass

from oncegate.engine.names import ALL_NAMESPACES as ALL_NAMESPACES
from oncegate.transports.access.rights import Right, Role


@dataclass(frozen=True)
class Principal:
    """The name, roles and namespaces of a caller.

    Args:
        until_ms: when the credential expires, by the wall clock; None: it is valid until it is revoked.
        tenant: whose quotas it uses; empty: its own.
    """

    name: str
    roles: frozenset[Role]
    namespaces: frozenset[str]
    until_ms: int | None = None
    tenant: str = ""

    @property
    def whose(self) -> tuple[str, frozenset[str]]:
        """Returns the key of its quotas (its tenant, else its name) and its namespaces."""
        return f"tenant {self.tenant}" if self.tenant else f"name {self.name}", self.namespaces

    def sees(self, namespace: str) -> bool:
        """Returns whether the caller's roles apply to a namespace."""
        return ALL_NAMESPACES in self.namespaces or namespace in self.namespaces

    def may(self, right: Right, namespace: str | None) -> bool:
        """Returns whether the caller has a right, in `namespace` if the call concerns one."""
        if right.roles and not right.roles & self.roles:
            return False
        if right.everywhere:
            return ALL_NAMESPACES in self.namespaces
        return namespace is None or self.sees(namespace)
