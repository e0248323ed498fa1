"""Defines the list of namespaces that gateways share, and changes it with optimistic concurrency.

    n/NAMESPACE    its ledger's id, its wrapped key, the number of namespaces that have had its name
    o/             the gateway elected to own the ledgers of this prefix
    b/GATEWAY      heartbeats of a running gateway: one a second, and a last one when it stops

A change is decided on the list as read, and written only if the list is unchanged. If two gateways change it at once,
one of them decides again.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import msgspec

from oncegate.core.errors import LedgerFull
from oncegate.ledgers.server.holders import Beat, Changes, Holders

# Attempts at a change before LedgerFull; each fails only because another gateway changed the list first.
TURNS_MAX = 20


class Namespace(Protocol):
    """A namespace's entry in the list."""

    @property
    def ledger(self) -> bytes:
        """Returns the id of the namespace's ledger."""

    @property
    def key(self) -> bytes:
        """Returns the namespace's secret key, wrapped."""

    @property
    def number(self) -> int:
        """Returns how many namespaces have had this name, including this namespace."""

    @property
    def deleted(self) -> bool:
        """Returns True if the namespace is deleted; its data is kept on the server for inspection."""


N = TypeVar("N", bound=Namespace)


@dataclass
class Listed(Holders, Generic[N]):
    """The list of namespaces as it was last read."""

    NAMESPACE: ClassVar[type[Any]]

    namespaces: dict[str, N] = field(default_factory=dict)

    def take(self, key: str, value: bytes | None) -> None:
        """Applies one record; None removes it. Raises ValueError: the key or value is invalid."""
        kind, _, name = key.partition("/")
        if kind == "n" and value is not None:
            self.namespaces[name] = msgspec.json.decode(value, type=self.NAMESPACE)
        elif not self.take_of_gateways(kind, name, value) and not self.take_own(kind, name, value):
            raise ValueError(f"its key is {key!r}")

    def take_own(self, kind: str, name: str, value: bytes | None) -> bool:
        """Applies a record of a kind that is specific to the server. Returns False for unknown kinds."""
        return False


L = TypeVar("L", bound=Listed[Any])
Decide = Callable[[L], Changes]


class NamespaceList(ABC, Generic[L]):
    """The list of namespaces on a server. Call `close` last.

    `OVERTAKEN`: errors of `_change` if another gateway changed the list first. `AWAY`: errors if the server cannot be
    reached. `EFFECT`, `SERVERS`: parts of the message for `AWAY`, on the effect of the change and on the server.
    """

    OVERTAKEN: ClassVar[tuple[type[Exception], ...]]
    AWAY: ClassVar[tuple[type[Exception], ...]]
    EFFECT: ClassVar[str]
    SERVERS: ClassVar[str]

    def __init__(self, listed: L) -> None:
        self._turn = asyncio.Lock()
        self.listed = listed

    async def change(self, decide: Decide[L]) -> None:
        """Writes the changes that `decide` returns for the current list; writes nothing if it returns none.

        Decides again if another gateway changed the list first.

        Raises the errors of `decide`; LedgerDamaged; LedgerFull: nothing was written, or the next refresh reads it.
        """
        async with self._turn:
            for _ in range(TURNS_MAX):
                try:
                    return await self._change(decide)
                except self.OVERTAKEN as error:
                    overtaken = error
                except self.AWAY as error:
                    why = f"{self.SERVERS} cannot be used ({error!r}); {self.EFFECT}"
                    raise LedgerFull(f"the list of namespaces cannot be changed now: {why}") from error
            raise LedgerFull(f"the list of namespaces is changed by others ({overtaken!r}); nothing was written")

    @abstractmethod
    async def _change(self, decide: Decide[L]) -> None:
        """Reads the list, and writes the changes that `decide` returns. Raises `OVERTAKEN`, `AWAY`."""

    @abstractmethod
    async def refresh(self) -> L:
        """Reads the current list. Raises LedgerDamaged; `AWAY`: `listed` is unchanged, or partly updated."""

    @abstractmethod
    async def beat(self, gateway: str, beat: Beat | None) -> None:
        """Writes a gateway's heartbeat; None removes it. Effect unknown when `AWAY` is raised."""

    @abstractmethod
    async def close(self) -> None:
        """Closes the connections."""
