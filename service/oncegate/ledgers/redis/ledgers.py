"""The ledgers below one prefix of a Redis server: listed, created, opened, and kept up by one clock."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path

from msgspec.structs import replace

from oncegate.core.errors import BadRequest, LedgerBusy, LedgerDamaged, LedgerDown, LedgerFenced, NotFound
from oncegate.ledgers.keys import KEY_BYTES, Keys, read_keys
from oncegate.ledgers.pause import pause
from oncegate.ledgers.redis.address import Address, parse_address
from oncegate.ledgers.redis.claims_only import NoTopics
from oncegate.ledgers.redis.connection import Link, Lost, Refused, Unreachable, unusable
from oncegate.ledgers.redis.namespaces import Listed, Namespace, NamespaceList
from oncegate.ledgers.redis.shard.fold import Fold
from oncegate.ledgers.redis.shard.followed import UNREADABLE, FollowedStreams
from oncegate.ledgers.redis.shard.ledger import RedisLedger
from oncegate.ledgers.redis.shard.opening import make_place, open_place
from oncegate.ledgers.redis.shard.place import RedisPlace
from oncegate.ledgers.redis.witnesses import Witness, Witnesses
from oncegate.ledgers.server.election import Election
from oncegate.ledgers.server.following import Followable, Following
from oncegate.ledgers.server.holders import Changes
from oncegate.ports import Followed, OpenLedger

# How long a witness's file may lag behind its ledger on the disk, and how often the server is looked at.
KEEP_UP_S = 1.0
DEFAULT = "default"
_ID_BYTES = 16


class RedisLedgers:
    """Implements `ports.Ledgers` and `ports.Standbys` over the keys below one prefix. Made by `open_redis`."""

    def __init__(self, address: Address, keys: Keys, listed: NamespaceList, witnesses: Witnesses) -> None:
        self._address = address
        self._keys = keys
        self._list = listed
        self._witnesses = witnesses
        self._changing = asyncio.Lock()
        self._open: dict[str, set[RedisLedger]] = {}
        self._election = Election(listed, address.takeover_ms, self._followed_by)
        self._election.start()
        self._keeper = asyncio.create_task(self._keep_up(), name="keeper of ledgers")

    def names(self) -> list[str]:
        """Implements the port's `Ledgers.names`, of the list as it was last read."""
        return sorted(name for name, one in self._list.listed.namespaces.items() if not one.deleted)

    async def create(self, namespace: str, key: bytes | None = None) -> None:
        """Implements the port's `Ledgers.create`. LedgerDamaged: keys of that name are there, of another ledger.

        Recovering: it stands by.
        """
        self._election.require_lead()
        async with self._changing:
            made = Namespace(os.urandom(_ID_BYTES), self._keys.wrap(key or os.urandom(KEY_BYTES)))
            await self._list.change(lambda listed: _created(listed, namespace, made))
            await self._made(namespace)

    async def _made(self, namespace: str) -> RedisPlace:
        """The place of a namespace as the list has it now; its keys are made once."""
        place = self._place(namespace)
        if place.listed.made:
            return place
        link = Link(self._address)
        try:
            with unreachable(self._address):
                await make_place(link, place)
        finally:
            await link.close()
        await self._change(namespace, place.listed, replace(place.listed, made=True))
        return self._place(namespace)

    async def _change(self, namespace: str, before: Namespace, after: Namespace) -> None:
        def changed(listed: Listed) -> Changes:
            return [(f"n/{namespace}", after)] if listed.namespaces.get(namespace) == before else []

        await self._list.change(changed)

    async def delete(self, namespace: str) -> None:
        """Implements the port's `Ledgers.delete`: its keys stay, and nothing names them. Recovering: as above."""
        self._election.require_lead()
        async with self._changing:
            if self._open.get(namespace):
                raise LedgerBusy(f"namespace {namespace} is open; nothing was deleted")
            place = self._place(namespace)
            await self._list.change(lambda listed: _deleted(listed, namespace))
            with suppress(OSError):  # it is of a ledger that is never asked for again
                self._witnesses.forget(place.name)

    @asynccontextmanager
    async def open(self, namespace: str) -> AsyncIterator[OpenLedger]:
        """Implements the port's `Ledgers.open`; NotFound, KeyMismatch, LedgerFenced, LedgerFull and LedgerDown too."""
        async with self._owned(namespace, None) as (opened, _):
            yield opened

    @asynccontextmanager
    async def follow(self, namespace: str) -> AsyncIterator[Followed]:
        """Implements the port's `Standbys.follow`; NotFound, KeyMismatch, LedgerFull, LedgerDown."""
        self._election.stand_by()
        place = await self._listed_place(namespace)
        async with AsyncExitStack() as stack:

            async def take_over(warm: Fold | None) -> tuple[OpenLedger, Fold]:
                return await stack.enter_async_context(self._owned(namespace, warm))

            fold = Fold(place.listed.ledger, place.frames)
            shard = FollowedStreams(place, fold, self._witness(place))
            stack.push_async_callback(shard.close)
            following = Following(Followable(place.frames, fold, shard, UNREADABLE, take_over), self._election)
            yield following.followed(place.keys.unwrap(place.listed.key), place.listed.ledger)

    async def _listed_place(self, namespace: str) -> RedisPlace:
        """The place of a namespace as the list has it now; its keys are made where nobody has owned it yet."""
        with unreachable(self._address):
            await self._list.refresh()
            return await self._made(namespace)

    def _witness(self, place: RedisPlace) -> Witness:
        return self._witnesses.of(place.name, place.listed.ledger)

    async def _lead(self) -> None:
        """Makes this gateway the holder, where it may be; LedgerFenced: another is to own the ledgers. LedgerFull."""
        await self._list.change(self._election.lead)

    @asynccontextmanager
    async def _owned(self, namespace: str, warm: Fold | None) -> AsyncIterator[tuple[OpenLedger, Fold]]:
        """Opens a ledger, fences who had it before, and closes it in the end. `warm`: as in `open_place`."""
        place = await self._listed_place(namespace)
        with unreachable(self._address):
            opened = await open_place(place, self._witness(place), self._lead, warm)
            await self._rewrap(namespace, opened.key)
        ledger = RedisLedger(place, opened)
        self._open.setdefault(namespace, set()).add(ledger)
        try:
            found = OpenLedger(
                ledger,
                opened.key,
                ledger.epoch,
                ledger.require_owner,
                ledger,
                compacted=ledger.compacted_position,
                free_bytes=ledger.free_bytes,
                row_topics=NoTopics() if self._address.claims_only else None,
                fenced_by_appends=True,
                durability=lambda: self._durability(ledger),
                away=ledger.away,
            )
            yield found, opened.writer.fold
        finally:
            self._open[namespace].discard(ledger)
            await ledger.close()

    def _durability(self, ledger: RedisLedger) -> str:
        unseen = "; NO WITNESS: what the server loses while this gateway does not run is seen by nobody"
        return ledger.durability + unseen * self._address.no_witness

    async def _rewrap(self, namespace: str, key: bytes) -> None:
        """Wraps a key anew that was wrapped with the master key before this one, so that that one may go."""
        one, wrapped = self._listed(namespace), self._keys.wrap(key)
        if one.key != wrapped:
            await self._change(namespace, one, replace(one, key=wrapped))

    def _listed(self, namespace: str) -> Namespace:
        found = self._list.listed.namespaces.get(namespace)
        if found is None or found.deleted:
            raise NotFound(f"namespace {namespace} does not exist; PUT /v1/namespaces/{namespace} creates it")
        return found

    def _place(self, namespace: str) -> RedisPlace:
        return RedisPlace(namespace, self._listed(namespace), self._address, self._keys)

    async def _keep_up(self) -> None:
        while True:
            await pause(KEEP_UP_S)
            # Side by side: one that waits for its server holds no other up.
            ledgers = [ledger for several in self._open.values() for ledger in several]
            await asyncio.gather(*map(_keep_one_up, ledgers))

    def _followed_by(self, why: LedgerFenced) -> None:
        """Another gateway owns the ledgers from now on: none of them takes anything more."""
        for ledger in [ledger for several in self._open.values() for ledger in several]:
            ledger.end(why)

    async def close(self) -> None:
        """Says goodbye, and lets go of the list; every ledger was closed before."""
        await self._election.close()
        self._keeper.cancel()
        await asyncio.wait([self._keeper])
        await self._list.close()


async def _keep_one_up(ledger: RedisLedger) -> None:
    """Ends a ledger whose upkeep raises what nobody expects."""
    try:
        await ledger.keep_up()
    except Exception as error:
        ledger.give_up(LedgerDown(f"the upkeep of a ledger failed ({error!r}); open it anew"))


def _created(listed: Listed, namespace: str, made: Namespace) -> Changes:
    before = listed.namespaces.get(namespace)
    if before is not None and not before.deleted:
        return []
    # The keys of a deleted namespace stay, for a person to look at.
    return [(f"n/{namespace}", replace(made, number=1 if before is None else before.number + 1))]


def _deleted(listed: Listed, namespace: str) -> Changes:
    one = listed.namespaces.get(namespace)
    if one is None or one.deleted:
        raise NotFound(f"namespace {namespace} does not exist; nothing was deleted")
    return [(f"n/{namespace}", replace(one, deleted=True))]


@contextmanager
def unreachable(address: Address) -> Iterator[None]:
    """Says LedgerDown where the server is away, or may hold no ledger; that is tried again."""
    try:
        yield
    except (Refused, Unreachable, Lost) as error:
        raise unusable(address, error) from error


@asynccontextmanager
async def open_redis(
    place: str, create: bool = False, witness: str | None = None, reserve_bytes: int = 0, *, tls: bool = False
) -> AsyncIterator[RedisLedgers]:
    """Opens the ledgers below a prefix. `reserve_bytes` is for disks.

    Raises BadRequest: the URL is wrong; LedgerDamaged: the server is not the one that the witness knows; NotFound:
    there is no list, and `create` is false; LedgerDown: it is not reached, or is none that may hold a ledger.
    """
    address = parse_address(place, tls)
    if (witness is None) != address.no_witness:
        raise BadRequest(
            "ledgers on Redis need --witness FOLDER, where this gateway keeps how far they reached: what the server "
            "loses in a failover or a restart shows there alone; no_witness=yes in the URL does without it"
        )
    keys = read_keys(address.master_key, address.old_master_key)
    witnesses = Witnesses(None if witness is None else Path(witness))
    async with AsyncExitStack() as stack:
        listed = NamespaceList(address)
        stack.push_async_callback(listed.close)
        with unreachable(address):
            await _require_list(address, listed, witnesses, create)
        ledgers = RedisLedgers(address, keys, listed, witnesses)
        stack.pop_all()
        stack.push_async_callback(ledgers.close)
        if create and not listed.listed.namespaces:
            await ledgers.create(DEFAULT)
        yield ledgers


async def _require_list(address: Address, listed: NamespaceList, witnesses: Witnesses, create: bool) -> None:
    """Makes the list of namespaces where nothing is below the prefix yet, and nobody has seen anything there."""
    try:
        witnesses.make_folder()
        seen = witnesses.of_prefix(address.prefix)
    except OSError as error:
        raise LedgerDown(f"the witness's folder cannot be used: {error}") from error
    if not await listed.is_there():
        if seen:
            raise LedgerDamaged(
                f"{address.shown} has no ledgers, and {seen[0]} saw one there: the server was flushed, emptied, or is "
                "another one; nothing was made, put back what it held, or remove the witness to begin anew"
            )
        if not create:
            raise NotFound(f"there are no ledgers at {address.shown}")
    await listed.begin(os.urandom(_ID_BYTES))
