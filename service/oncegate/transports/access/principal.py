"""Says whose credential was shown, and what it may do where; the same for keys and tokens."""

from dataclasses import dataclass

from oncegate.engine.names import ALL_NAMESPACES as ALL_NAMESPACES
from oncegate.transports.access.rights import Right, Role


@dataclass(frozen=True)
class Principal:
    """Tells whose credential it is, what it may do, in which namespaces, and until when; None: until it is revoked.

    `tenant`: for whom quotas count it, together with others; empty: for itself alone.
    """

    name: str
    roles: frozenset[Role]
    namespaces: frozenset[str]
    until_ms: int | None = None
    tenant: str = ""

    @property
    def whose(self) -> tuple[str, frozenset[str]]:
        """Returns the tenant that its quotas are of, its own name where it names none, and its namespaces."""
        return f"tenant {self.tenant}" if self.tenant else f"name {self.name}", self.namespaces

    def sees(self, namespace: str) -> bool:
        """Tells whether its roles hold in this namespace."""
        return ALL_NAMESPACES in self.namespaces or namespace in self.namespaces

    def may(self, right: Right, namespace: str | None) -> bool:
        """Tells whether it has the right, in this namespace where the call is about one."""
        if right.roles and not right.roles & self.roles:
            return False
        if right.everywhere:
            return ALL_NAMESPACES in self.namespaces
        return namespace is None or self.sees(namespace)
