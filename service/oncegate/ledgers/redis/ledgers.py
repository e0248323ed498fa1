"""Lists, creates and opens the ledgers of one key prefix of a Redis server."""

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path

from oncegate.core.errors import BadRequest, LedgerDamaged, LedgerDown, NotFound
from oncegate.ledgers.keys import Keys, read_keys
from oncegate.ledgers.redis.address import Address, parse_address
from oncegate.ledgers.redis.connection import Link, Lost, Refused, Unreachable, unusable
from oncegate.ledgers.redis.namespaces import NamespaceHash, RedisListed, RedisNamespace
from oncegate.ledgers.redis.shard.followed import UNREADABLE, FollowedStreams
from oncegate.ledgers.redis.shard.head import RedisPlace
from oncegate.ledgers.redis.shard.ledger import RedisLedger
from oncegate.ledgers.redis.shard.opening import make_place, open_place
from oncegate.ledgers.redis.shard.reading import Fold
from oncegate.ledgers.redis.witnesses import Witness, Witnesses
from oncegate.ledgers.server.holders import Changes
from oncegate.ledgers.server.ledgers import ServerLedgers, next_number, serving

_LIST_ID_BYTES = 16


class RedisLedgers(ServerLedgers[RedisNamespace, RedisPlace, Fold, RedisLedger]):
    """The ledgers of one key prefix. Created by `open_redis`."""

    UNREADABLE = UNREADABLE

    def __init__(self, address: Address, keys: Keys, witnesses: Witnesses) -> None:
        self._list: NamespaceHash
        super().__init__(NamespaceHash(address), keys, address.takeover_ms, partial(unreachable, address))
        self._address = address
        self._witnesses = witnesses

    async def _begin_list(self, create: bool) -> None:
        try:
            self._witnesses.make_folder()
            seen = self._witnesses.of_prefix(self._address.prefix)
        except OSError as error:
            raise LedgerDown(f"the witness's folder cannot be used: {error}") from error
        if not await self._list.is_there():
            if seen:
                raise LedgerDamaged(
                    f"{self._address.shown} has no ledgers, and {seen[0]} saw one there: the server was flushed, "
                    "emptied, or is another one; nothing was made, put back what it held, or remove the witness to "
                    "begin again"
                )
            if not create:
                raise NotFound(f"there are no ledgers at {self._address.shown}")
        await self._list.begin(os.urandom(_LIST_ID_BYTES))

    async def _create(self, namespace: str, ledger: bytes, key: bytes) -> None:
        def created(listed: RedisListed) -> Changes:
            # The keys of a deleted namespace are kept for inspection.
            number = next_number(listed, namespace)
            return [] if number is None else [(f"n/{namespace}", RedisNamespace(ledger, key, number))]

        await self._list.change(created)
        await self._made(namespace)

    def _location(self, namespace: str) -> RedisPlace:
        return RedisPlace(namespace, self._listed(namespace), self._address, self._keys)

    async def _made_location(self, namespace: str) -> RedisPlace:
        await self._list.refresh()
        return await self._made(namespace)

    async def _made(self, namespace: str) -> RedisPlace:
        """Returns the location of a namespace's ledger; creates its keys if they were never created."""
        place = self._location(namespace)
        if place.listed.made:
            return place
        link = Link(self._address)
        try:
            await make_place(link, place)
        finally:
            await link.close()
        await self._change(namespace, place.listed, made=True)
        return self._location(namespace)

    def _forget(self, location: RedisPlace) -> None:
        with suppress(OSError):  # a leftover file is harmless: the ledger is never opened again
            self._witnesses.forget(location.name)

    def _follow(self, location: RedisPlace) -> tuple[Fold, FollowedStreams]:
        fold = Fold(location.listed.ledger, location.frames)
        return fold, FollowedStreams(location, fold, self._witness(location))

    def _witness(self, place: RedisPlace) -> Witness:
        return self._witnesses.of(place.name, place.listed.ledger)

    async def _lead(self) -> None:
        """Makes this gateway the leader. Raises LedgerFenced: another gateway must own the ledgers; LedgerFull."""
        await self._list.change(self._election.lead)

    async def _own(self, location: RedisPlace, warm: Fold | None) -> RedisLedger:
        return RedisLedger(location, await open_place(location, self._witness(location), self._lead, warm))


@contextmanager
def unreachable(address: Address) -> Iterator[None]:
    """Converts Refused, Unreachable and Lost to LedgerDown, which is retriable."""
    try:
        yield
    except (Refused, Unreachable, Lost) as error:
        raise unusable(address, error) from error


@asynccontextmanager
async def open_redis(
    place: str, create: bool = False, witness: str | None = None, reserve_bytes: int = 0, *, tls: bool = False
) -> AsyncIterator[RedisLedgers]:
    """Opens the ledgers of a prefix. `reserve_bytes` applies to disks only and is ignored.

    `witness`: the folder of rollback checks.

    Raises:
        BadRequest: the URL is invalid.
        NotFound: there is no list of namespaces, and `create` is false.
        LedgerDamaged: there is no list, but a rollback check of this prefix.
        LedgerDown: the server cannot be reached, or must not hold a ledger.
    """
    address = parse_address(place, tls)
    if (witness is None) != address.no_witness:
        raise BadRequest(
            "ledgers on Redis need --witness FOLDER, where this gateway keeps how far they reached: what the server "
            "loses in a failover or a restart shows there alone; no_witness=yes in the URL does without it"
        )
    keys = read_keys(address.master_key, address.old_master_key)
    witnesses = Witnesses(None if witness is None else Path(witness))
    async with serving(RedisLedgers(address, keys, witnesses), create) as ledgers:
        yield ledgers
