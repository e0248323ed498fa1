"""Lists, creates, opens and follows the ledgers below one prefix of a server, and runs one upkeep task for all of them.

A subclass makes a namespace's keys or topics on its server, opens its ledger, and checks that it can be used.
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

# How long a witness may lag behind its ledger, and how often the server is looked at.
KEEP_UP_S = 1.0
# How often what a server would lose is checked beside each opening.
CHECK_S = 3_600.0
DEFAULT = "default"
_ID_BYTES = 16


class LedgerLocation(Protocol):
    """Names one ledger on a server. `listed`: its namespace; `where`: the topic or key of its frames, for messages."""

    @property
    def listed(self) -> Namespace:
        """The namespace as it is listed."""

    @property
    def where(self) -> str:
        """Names the topic or key of its frames."""

    @property
    def keys(self) -> Keys:
        """Wraps and unwraps the namespace's key."""


N = TypeVar("N", bound=Namespace)
P = TypeVar("P", bound=LedgerLocation)
F = TypeVar("F", bound=Fold)
T = TypeVar("T", bound=RemoteLedger[Any])


class ServerLedgers(ABC, Generic[N, P, F, T]):
    """Implements `ports.Ledgers` and `ports.Standbys`. Made and begun by `serving`.

    `reaching`: a context that raises LedgerDown where the server is away, or may hold no ledger. `UNREADABLE`: what
    reading a ledger raises then.
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
        """Reads the list, makes it where nothing is there and `create`; then elects, and keeps ledgers up."""
        with self._reaching():
            await self._begin_list(create)
        self._election.start()
        self._keeper = asyncio.create_task(self._keep_up(), name="keeper of ledgers")
        if create and not self._list.listed.namespaces:
            await self.create(DEFAULT)

    async def close(self) -> None:
        """Ends the election and closes the list; every ledger was closed before."""
        if self._keeper is not None:
            await self._election.close()
            self._keeper.cancel()
            await asyncio.wait([self._keeper])
        await self._list.close()

    def names(self) -> list[str]:
        """Implements the port's `Ledgers.names`, of the list as it was last read."""
        return sorted(name for name, one in self._list.listed.namespaces.items() if not one.deleted)

    async def create(self, namespace: str, key: bytes | None = None) -> None:
        """Implements the port's `Ledgers.create`; what somebody has made for it is taken where it is empty.

        LedgerDamaged: there is something of that name, and the list does not have it. Recovering: it stands by.
        """
        self._election.require_lead()
        async with self._changing:
            with self._reaching():
                await self._create(namespace, os.urandom(_ID_BYTES), self._keys.wrap(key or os.urandom(KEY_BYTES)))

    async def delete(self, namespace: str) -> None:
        """Implements the port's `Ledgers.delete`: what it held stays, and nothing names it. Recovering: as above."""
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
        """Implements the port's `Ledgers.open`; NotFound, KeyMismatch, LedgerFenced, LedgerFull and LedgerDown too."""
        async with self._owned(namespace, None) as (opened, _):
            yield opened

    @asynccontextmanager
    async def follow(self, namespace: str) -> AsyncIterator[Followed]:
        """Implements the port's `Standbys.follow`; NotFound, KeyMismatch, LedgerFull, LedgerDown."""
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
        """Opens a ledger, fences who had it before, and closes it in the end. `warm`: what a standby has read."""
        async with AsyncExitStack() as stack:
            with self._reaching():
                ledger = await self._own(await self._made_location(namespace), warm)
                stack.push_async_callback(ledger.close)
                await self._rewrap(namespace, ledger.key)
            self._open.setdefault(namespace, set()).add(ledger)
            stack.callback(self._open[namespace].discard, ledger)
            yield ledger.opened(), ledger.fold

    async def _rewrap(self, namespace: str, key: bytes) -> None:
        """Wraps a key again that was wrapped with the master key before this one, so that that one may go."""
        listed, wrapped = self._listed(namespace), self._keys.wrap(key)
        if listed.key != wrapped:
            await self._change(namespace, listed, key=wrapped)

    async def _change(self, namespace: str, before: N, **fields: Any) -> None:
        """Lists a namespace with other fields if it is still listed as `before`."""
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
            # Side by side: one that waits for its server holds no other up.
            await asyncio.gather(*(self._keep_one_up(ledger, is_due) for ledger in self._owned_now()))
            checked_s = now_s() if is_due else checked_s

    async def _keep_one_up(self, ledger: T, is_due: bool) -> None:
        """Ends a ledger of which something would be lost or was, or whose upkeep raises an unexpected error."""
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
        """Ends all open ledgers: another gateway owns them now."""
        for ledger in self._owned_now():
            ledger.end_beside(why)

    def _owned_now(self) -> list[T]:
        return [ledger for ledgers in self._open.values() for ledger in ledgers]

    @abstractmethod
    async def _begin_list(self, create: bool) -> None:
        """Reads the list, and makes it where nothing is there; NotFound: there is none, and not `create`."""

    @abstractmethod
    async def _create(self, namespace: str, ledger: bytes, key: bytes) -> None:
        """Lists a namespace with this id and wrapped key where there is none, and makes what it has on the server."""

    def _deleted(self, listed: N) -> Any:
        """What is listed of a deleted namespace."""
        return replace(cast(Any, listed), deleted=True)

    def _forget(self, location: P) -> None:
        """Removes what this machine keeps of a deleted namespace."""

    @abstractmethod
    def _location(self, namespace: str) -> P:
        """Where a namespace's ledger is, as the list was read last; NotFound."""

    @abstractmethod
    async def _made_location(self, namespace: str) -> P:
        """The same of the list as it is now; what it has on the server is made where nobody has owned it yet."""

    @abstractmethod
    def _follow(self, location: P) -> tuple[F, FollowedShard]:
        """Returns what reads a ledger on while another gateway owns it, and the replay state that it reads into."""

    @abstractmethod
    async def _own(self, location: P, warm: F | None) -> T:
        """Opens a ledger, and fences who had it before."""

    async def _check(self, ledger: T) -> None:
        """Raises LedgerDamaged where the server would lose something of an open ledger, or has."""


def next_number(listed: Listed[Any], namespace: str) -> int | None:
    """Returns the number of a namespace to be created; None: it exists."""
    before = listed.namespaces.get(namespace)
    if before is not None and not before.deleted:
        return None
    return 1 if before is None else before.number + 1


L = TypeVar("L", bound=ServerLedgers[Any, Any, Any, Any])


@asynccontextmanager
async def serving(ledgers: L, create: bool) -> AsyncIterator[L]:
    """Begins ledgers, and closes them at the end; raises what `begin` does."""
    try:
        await ledgers.begin(create)
        yield ledgers
    finally:
        await ledgers.close()
