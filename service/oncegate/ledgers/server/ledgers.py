"""Lists, creates, opens and tails the ledgers of one prefix of a server, and runs their maintenance task.

A subclass creates a namespace's keys or topics on its server, opens its ledger, and checks it.
"""

import asyncio
import os
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, ClassVar, Generic, Protocol, TypeVar, cast

from msgspec.structs import replace

from oncegate.clock import now_s, sleep_s
from oncegate.core.errors import LedgerBusy, LedgerDown, LedgerFenced, NotFound, OncegateError
from oncegate.ledgers.fold import Fold
from oncegate.ledgers.keys import KEY_BYTES, Keys
from oncegate.ledgers.server.election import Election
from oncegate.ledgers.server.following import Followable, FollowedShard, Following
from oncegate.ledgers.server.holders import Changes
from oncegate.ledgers.server.ledger import RemoteLedger
from oncegate.ledgers.server.namespaces import Listed, Namespace, NamespaceList
from oncegate.ports import Followed, OpenLedger

# Interval of maintenance: bounds the lag of a rollback check, and how late a lost server is noticed.
KEEP_UP_S = 1.0
# Interval of `_check` on open ledgers.
CHECK_S = 3_600.0
DEFAULT = "default"
_ID_BYTES = 16


class LedgerLocation(Protocol):
    """Location of one ledger on a server."""

    @property
    def listed(self) -> Namespace:
        """Returns the namespace's entry in the list."""

    @property
    def where(self) -> str:
        """Returns the topic or key of the ledger's frames, for messages."""

    @property
    def keys(self) -> Keys:
        """Returns the master keys that wrap and unwrap the namespace's key."""


N = TypeVar("N", bound=Namespace)
P = TypeVar("P", bound=LedgerLocation)
F = TypeVar("F", bound=Fold)
T = TypeVar("T", bound=RemoteLedger[Any])


class ServerLedgers(ABC, Generic[N, P, F, T]):
    """Implements `ports.Ledgers` and `ports.Standbys` on a server. Started and closed by `serving`.

    `reaching`: context manager that raises LedgerDown if the server cannot be reached or must not hold a ledger.
    `UNREADABLE`: the errors of reading a ledger in that case.
    """

    UNREADABLE: ClassVar[tuple[type[Exception], ...]]

    def __init__(
        self,
        listed: NamespaceList[Any],
        keys: Keys,
        takeover_ms: int,
        reaching: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._list = listed
        self._keys = keys
        self._reaching = reaching
        self._changing = asyncio.Lock()
        self._open: dict[str, set[T]] = {}
        self._election = Election(listed, takeover_ms, self._superseded)
        self._keeper: asyncio.Task[None] | None = None

    async def begin(self, create: bool) -> None:
        """Reads the list of namespaces (creates it if `create`), then starts the election and the maintenance task."""
        with self._reaching():
            await self._begin_list(create)
        self._election.start()
        self._keeper = asyncio.create_task(self._keep_up(), name="keeper of ledgers")
        if create and not self._list.listed.namespaces:
            await self.create(DEFAULT)

    async def close(self) -> None:
        """Ends the election and closes the list. All ledgers must be closed already."""
        if self._keeper is not None:
            await self._election.close()
            self._keeper.cancel()
            await asyncio.wait([self._keeper])
        await self._list.close()

    def names(self) -> list[str]:
        """Returns the names of namespaces in the list as it was last read, sorted."""
        return sorted(name for name, one in self._list.listed.namespaces.items() if not one.deleted)

    async def create(self, namespace: str, key: bytes | None = None) -> None:
        """Implements the port's `Ledgers.create`; uses topics or keys that exist already if they are empty.

        Raises LedgerDamaged: its topics or keys hold data, but the list lacks it; Recovering: this is a standby.
        """
        self._election.require_lead()
        async with self._changing:
            with self._reaching():
                await self._create(namespace, os.urandom(_ID_BYTES), self._keys.wrap(key or os.urandom(KEY_BYTES)))

    async def delete(self, namespace: str) -> None:
        """Implements the port's `Ledgers.delete`: removes a namespace from the list; its data on the server is kept.

        Raises LedgerBusy; NotFound; Recovering: this is a standby.
        """
        self._election.require_lead()
        async with self._changing:
            if self._open.get(namespace):
                raise LedgerBusy(f"namespace {namespace} is open; nothing was deleted")

            def deleted(_: Listed[N]) -> Changes:
                return [(f"n/{namespace}", self._deleted(self._listed(namespace)))]

            with self._reaching():
                location = self._location(namespace)
                await self._list.change(deleted)
                self._forget(location)

    @asynccontextmanager
    async def open(self, namespace: str) -> AsyncIterator[OpenLedger]:
        """Implements the port's `Ledgers.open`. Raises NotFound, KeyMismatch, LedgerFenced, LedgerFull,
        LedgerDown too.
        """
        async with self._owned(namespace, None) as (opened, _):
            yield opened

    @asynccontextmanager
    async def follow(self, namespace: str) -> AsyncIterator[Followed]:
        """Implements the port's `Standbys.follow`: tails a ledger.
        Raises NotFound, KeyMismatch, LedgerFull, LedgerDown.
        """
        self._election.stand_by()
        with self._reaching():
            location = await self._made_location(namespace)
        async with AsyncExitStack() as stack:

            async def take_over(warm: F | None) -> tuple[OpenLedger, F]:
                return await stack.enter_async_context(self._owned(namespace, warm))

            fold, shard = self._follow(location)
            stack.push_async_callback(shard.close)
            following = Following(Followable(location.where, fold, shard, self.UNREADABLE, take_over), self._election)
            yield following.followed(location.keys.unwrap(location.listed.key), location.listed.ledger)

    @asynccontextmanager
    async def _owned(self, namespace: str, warm: F | None) -> AsyncIterator[tuple[OpenLedger, F]]:
        """Opens a ledger, fences its earlier owner, and closes it at the end. `warm`: a standby's replay state."""
        async with AsyncExitStack() as stack:
            with self._reaching():
                ledger = await self._own(await self._made_location(namespace), warm)
                stack.push_async_callback(ledger.close)
                await self._rewrap(namespace, ledger.key)
            self._open.setdefault(namespace, set()).add(ledger)
            stack.callback(self._open[namespace].discard, ledger)
            yield ledger.opened(), ledger.fold

    async def _rewrap(self, namespace: str, key: bytes) -> None:
        """Wraps the key again if it is wrapped with the old master key, so that the old one can be removed."""
        listed, wrapped = self._listed(namespace), self._keys.wrap(key)
        if listed.key != wrapped:
            await self._change(namespace, listed, key=wrapped)

    async def _change(self, namespace: str, before: N, **fields: Any) -> None:
        """Changes fields of a namespace's list entry if it still equals `before`."""
        after = replace(cast(Any, before), **fields)

        def changed(listed: Listed[N]) -> Changes:
            return [(f"n/{namespace}", after)] if listed.namespaces.get(namespace) == before else []

        await self._list.change(changed)

    def _listed(self, namespace: str) -> N:
        listed: N | None = self._list.listed.namespaces.get(namespace)
        if listed is None or listed.deleted:
            raise NotFound(f"namespace {namespace} does not exist; PUT /v1/namespaces/{namespace} creates it")
        return listed

    async def _keep_up(self) -> None:
        checked_s = now_s()
        while True:
            await sleep_s(KEEP_UP_S)
            is_due = now_s() >= checked_s + CHECK_S
            # Concurrently, so that a ledger waiting for its server does not delay others.
            await asyncio.gather(*(self._keep_one_up(ledger, is_due) for ledger in self._owned_now()))
            checked_s = now_s() if is_due else checked_s

    async def _keep_one_up(self, ledger: T, is_due: bool) -> None:
        """Runs one ledger's maintenance; an error in the maintenance or in `_check` ends the ledger."""
        try:
            await ledger.keep_up()
            if is_due:
                await self._check(ledger)
        except OncegateError as error:
            ledger.end_beside(error)
        except Exception as error:
            why = f"the upkeep of {ledger.where} failed ({error!r}); open it again"
            ledger.end_beside(LedgerDown(why))

    def _superseded(self, why: LedgerFenced) -> None:
        """Ends all open ledgers, since another gateway owns them now."""
        for ledger in self._owned_now():
            ledger.end_beside(why)

    def _owned_now(self) -> list[T]:
        return [ledger for ledgers in self._open.values() for ledger in ledgers]

    @abstractmethod
    async def _begin_list(self, create: bool) -> None:
        """Reads the list of namespaces, or creates it if `create`.
        Raises NotFound: there is none, and `create` is false.
        """

    @abstractmethod
    async def _create(self, namespace: str, ledger: bytes, key: bytes) -> None:
        """Adds a namespace with this ledger id and wrapped key to the list, if it is new;
        creates its topics or keys.
        """

    def _deleted(self, listed: N) -> Any:
        return replace(cast(Any, listed), deleted=True)

    def _forget(self, location: P) -> None:
        """Removes local files of a deleted namespace."""

    @abstractmethod
    def _location(self, namespace: str) -> P:
        """Returns a ledger's location according to the list as it was last read. Raises NotFound."""

    @abstractmethod
    async def _made_location(self, namespace: str) -> P:
        """Refreshes the list, and returns a ledger's location; creates its topics or keys if it never had an owner."""

    @abstractmethod
    def _follow(self, location: P) -> tuple[F, FollowedShard]:
        """Returns a new replay state, and a reader that tails another gateway's ledger into it."""

    @abstractmethod
    async def _own(self, location: P, warm: F | None) -> T:
        """Opens a ledger, and fences its earlier owner."""

    async def _check(self, ledger: T) -> None:
        """Raises LedgerDamaged if the server has lost records of an open ledger, or might lose some."""


def next_number(listed: Listed[Any], namespace: str) -> int | None:
    """Returns the number of a namespace to be created, or None if it exists."""
    before = listed.namespaces.get(namespace)
    if before is not None and not before.deleted:
        return None
    return 1 if before is None else before.number + 1


L = TypeVar("L", bound=ServerLedgers[Any, Any, Any, Any])


@asynccontextmanager
async def serving(ledgers: L, create: bool) -> AsyncIterator[L]:
    """Starts `ledgers`, and closes them at the end. Raises as `begin`."""
    try:
        await ledgers.begin(create)
        yield ledgers
    finally:
        await ledgers.close()
