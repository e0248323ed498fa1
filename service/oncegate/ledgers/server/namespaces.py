"""Defines the list of namespaces that gateways share, and how a change of it is decided.

    n/NAMESPACE    its ledger's id, its wrapped key, the number of those that had its name
    o/             the gateway that is to own the ledgers below this prefix
    b/GATEWAY      the beats of a live gateway: one a second, the last of them a goodbye

A change is decided on the list as it was read, and written only if the list is still the same: of two gateways that
change it at once, one decides again.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import msgspec

from oncegate.core.errors import LedgerFull
from oncegate.ledgers.server.holders import Beat, Changes, Holders

# Another gateway that changes the list at the same time ends our turn; after so many there is none left to wait for.
TURNS_MAX = 20


class Namespace(Protocol):
    """Lists a namespace. `number`: of those that had its name; `key`: wrapped; `deleted`: it is forgotten."""

    @property
    def ledger(self) -> bytes:
        """The id of its ledger."""

    @property
    def key(self) -> bytes:
        """Its secret key, wrapped."""

    @property
    def number(self) -> int:
        """Counts the namespaces that had its name, this one included."""

    @property
    def deleted(self) -> bool:
        """Whether it is forgotten; what it held stays on the server, for a person to look at."""


N = TypeVar("N", bound=Namespace)


@dataclass
class Listed(Holders, Generic[N]):
    """Holds the list as it was last read."""

    NAMESPACE: ClassVar[type[Any]]

    namespaces: dict[str, N] = field(default_factory=dict)

    def take(self, key: str, value: bytes | None) -> None:
        """Applies one record, None removes it; ValueError: it is none of these."""
        kind, _, name = key.partition("/")
        if kind == "n" and value is not None:
            self.namespaces[name] = msgspec.json.decode(value, type=self.NAMESPACE)
        elif not self.take_of_gateways(kind, name, value) and not self.take_own(kind, name, value):
            raise ValueError(f"its key is {key!r}")

    def take_own(self, kind: str, name: str, value: bytes | None) -> bool:
        """Applies a record of a kind that this server's lists have alone; False: there is no such kind."""
        return False


L = TypeVar("L", bound=Listed[Any])
Decide = Callable[[L], Changes]


class NamespaceList(ABC, Generic[L]):
    """Reads and changes the list. Use `close` last.

    `OVERTAKEN`: what `_change` raises where another came first; `AWAY`: where the server cannot be reached.
    `EFFECT`: whether a change was written that met the latter. `SERVERS`: what cannot be used then.
    """

    OVERTAKEN: ClassVar[tuple[type[Exception], ...]]
    AWAY: ClassVar[tuple[type[Exception], ...]]
    EFFECT: ClassVar[str]
    SERVERS: ClassVar[str]

    def __init__(self, listed: L) -> None:
        self._turn = asyncio.Lock()
        self.listed = listed

    async def change(self, decide: Decide[L]) -> None:
        """Writes the changes that `decide` returns for the current list; decides again if another gateway changed it
        first.

        No changes: nothing is written. Raises what `decide` does; LedgerFull: nothing was written, or the next
        refresh reads it. LedgerDamaged.
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
        """Reads the list, and writes what `decide` makes of it; `OVERTAKEN`, `AWAY`."""

    @abstractmethod
    async def refresh(self) -> L:
        """Reads the list as it is now; `AWAY`: what was read before stays. LedgerDamaged."""

    @abstractmethod
    async def beat(self, gateway: str, beat: Beat | None) -> None:
        """Writes a gateway's beat, None removes it; `AWAY`: unknown whether it is written."""

    @abstractmethod
    async def close(self) -> None:
        """Closes the connections."""
