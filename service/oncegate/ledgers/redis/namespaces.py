"""Keeps the list of namespaces in one hash, {PREFIX}:namespaces.

    id             made with the list: what tells it from the list of an empty server
    version        counts changes
    n/NAMESPACE    its ledger's id, its wrapped key, the number of those that had its name
    o/             the gateway that is to own the ledgers below this prefix
    b/GATEWAY      the beats of a gateway that is: one a second, the last of them a goodbye

A change is decided upon a version, and written if the list still has it: two that change it at once never decide on the
same list. Beats are written without that; a field has one writer.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from oncegate.core.errors import LedgerDamaged
from oncegate.ledgers.redis.address import Address
from oncegate.ledgers.redis.connection import Link, Lost, Refused, Unreachable
from oncegate.ledgers.redis.scripts import BEGIN, CHANGE
from oncegate.ledgers.server.holders import Beat
from oncegate.ledgers.server.namespaces import Decide, Listed, NamespaceList


class RedisNamespace(msgspec.Struct, frozen=True):
    """Lists a namespace. `number`: of those that had its name; `key`: its secret key, wrapped.

    `made`: its keys are on the server, for good. `deleted`: it is forgotten, and its keys stay.
    """

    ledger: bytes
    key: bytes
    number: int = 1
    made: bool = False
    deleted: bool = False
    format: int = 1


@dataclass
class RedisListed(Listed[RedisNamespace]):
    """Holds the list; `version` counts its changes."""

    NAMESPACE = RedisNamespace

    id: bytes = b""
    version: bytes = b""

    def take_own(self, kind: str, name: str, value: bytes | None) -> bool:
        if kind in ("id", "version") and not name and value is not None:
            setattr(self, kind, value)
            return True
        return False


class Overtaken(Exception):
    """Another gateway changed the list since it was read; nothing was written."""


def list_key(prefix: str) -> str:
    return f"{{{prefix}}}:namespaces"


class NamespaceHash(NamespaceList[RedisListed]):
    """Keeps the list in a hash, over a link of its own. Use `close` last."""

    OVERTAKEN = (Overtaken,)
    AWAY = (Refused, Unreachable, Lost)
    EFFECT = "if it was written, the next look reads it"
    SERVERS = "the Redis server"

    def __init__(self, address: Address) -> None:
        super().__init__(RedisListed())
        # What it holds says whether it is the same: `id`.
        self._link = Link(address, any_server=True)
        self.key = list_key(address.prefix)

    async def close(self) -> None:
        await self._link.close()

    async def is_there(self) -> bool:
        """Returns whether there is a list; Refused, Unreachable, Lost."""
        return bool(await self._link.ask("EXISTS", self.key))

    async def begin(self, made: bytes) -> RedisListed:
        """Reads the list for the first time; makes it, with this id, where there is none. Errors as `refresh`."""
        await self._link.run(BEGIN, [self.key], made)
        return await self.refresh()

    async def refresh(self) -> RedisListed:
        """Reads the list; Refused, Unreachable, Lost: what was read stays. LedgerDamaged: another one, or none."""
        pairs = await self._link.ask("HGETALL", self.key)
        listed = RedisListed()
        for name, value in zip(pairs[::2], pairs[1::2], strict=True):
            self._take(listed, name.decode(errors="replace"), value)
        if self.listed.id not in (b"", listed.id):
            raise self._gone()
        self.listed = listed
        return listed

    def _take(self, listed: RedisListed, name: str, value: bytes) -> None:
        try:
            listed.take(name, value)
        except ValueError as error:
            raise LedgerDamaged(
                f"key {self.key}, field {name}: not of a list of namespaces that this version reads ({error}); nothing "
                "was changed"
            ) from error

    def _gone(self) -> LedgerDamaged:
        return LedgerDamaged(
            f"key {self.key} is not the list that this gateway knows: the server was flushed, or is another one; "
            "nothing was written, put back what it held"
        )

    async def _change(self, decide: Decide[RedisListed]) -> None:
        if changes := decide(await self.refresh()):
            fields = [one for name, value in changes for one in (name, msgspec.json.encode(value))]
            if not await self._put(self.listed.version, fields):
                raise Overtaken
            await self.refresh()

    async def beat(self, gateway: str, beat: Beat | None) -> None:
        """Writes the beat of a gateway, or removes it if None; Refused, Unreachable, Lost, LedgerDamaged."""
        field = f"b/{gateway}", b"" if beat is None else msgspec.json.encode(beat)
        try:
            await self._put(b"", field)
        except Lost:
            # Twice is as good as once, and a goodbye is not said again.
            await self._put(b"", field)

    async def _put(self, version: bytes, fields: Sequence[str | bytes]) -> bool:
        """Writes fields, if the list has this version, or any for none; LedgerDamaged: it is another list."""
        answer = await self._link.run(CHANGE, [self.key], self.listed.id, version, *fields)
        if answer == b"GONE":
            raise self._gone()
        return bool(answer == b"OK")
