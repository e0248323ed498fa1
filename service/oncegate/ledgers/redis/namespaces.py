"""Stores the list of namespaces in one hash, {PREFIX}:namespaces.

    id             random id of the list, which detects that the server was flushed or replaced
    version        number of changes
    n/NAMESPACE    its ledger's id, its wrapped key, the number of namespaces that have had its name
    o/             the gateway elected to own the ledgers of this prefix
    b/GATEWAY      heartbeats of a running gateway: one a second, and a last one when it stops

A change is decided on one version, and written only if the list still has it. Two concurrent changes therefore never
decide on the same list. Heartbeats do not need a version; each field has a single writer.
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
    """A namespace's entry in the list. `key`: its secret key, wrapped.

    `number`: counts the namespaces that have had this name. `made`: its keys exist on the server; never reset.
    `deleted`: it is gone, but its keys on the server are kept.
    """

    ledger: bytes
    key: bytes
    number: int = 1
    made: bool = False
    deleted: bool = False
    format: int = 1


@dataclass
class RedisListed(Listed[RedisNamespace]):
    """The list of namespaces as it was last read."""

    NAMESPACE = RedisNamespace

    id: bytes = b""
    version: bytes = b""

    def take_own(self, kind: str, name: str, value: bytes | None) -> bool:
        if kind in ("id", "version") and not name and value is not None:
            setattr(self, kind, value)
            return True
        return False


class Overtaken(Exception):
    """Another gateway has changed the list since it was read; nothing was written."""


def list_key(prefix: str) -> str:
    return f"{{{prefix}}}:namespaces"


class NamespaceHash(NamespaceList[RedisListed]):
    """The list of namespaces, stored in a hash and accessed over its own connection. Call `close` last."""

    OVERTAKEN = (Overtaken,)
    AWAY = (Refused, Unreachable, Lost)
    EFFECT = "if it was written, the next look reads it"
    SERVERS = "the Redis server"

    def __init__(self, address: Address) -> None:
        super().__init__(RedisListed())
        # Any server: the list's `id` shows whether it is the same list.
        self._link = Link(address, any_server=True)
        self.key = list_key(address.prefix)

    async def close(self) -> None:
        await self._link.close()

    async def is_there(self) -> bool:
        """Returns whether the server has a list of namespaces under this prefix. Raises Refused, Unreachable, Lost."""
        return bool(await self._link.ask("EXISTS", self.key))

    async def begin(self, made: bytes) -> RedisListed:
        """Creates the list with this id if there is none, and reads it. Raises as `refresh`."""
        await self._link.run(BEGIN, [self.key], made)
        return await self.refresh()

    async def refresh(self) -> RedisListed:
        """Reads the list. If it raises, `listed` is unchanged.

        Raises LedgerDamaged: the list is missing, or another one; Refused, Unreachable, Lost.
        """
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
        """Writes a gateway's heartbeat; None removes it. Raises Refused, Unreachable, Lost, LedgerDamaged."""
        field = f"b/{gateway}", b"" if beat is None else msgspec.json.encode(beat)
        try:
            await self._put(b"", field)
        except Lost:
            # Writing it twice is harmless, and a gateway's last heartbeat has no successor.
            await self._put(b"", field)

    async def _put(self, version: bytes, fields: Sequence[str | bytes]) -> bool:
        """Writes fields if the list has this version; an empty `version` matches any. Returns whether it wrote them.

        Raises LedgerDamaged: it is another list.
        """
        answer = await self._link.run(CHANGE, [self.key], self.listed.id, version, *fields)
        if answer == b"GONE":
            raise self._gone()
        return bool(answer == b"OK")
