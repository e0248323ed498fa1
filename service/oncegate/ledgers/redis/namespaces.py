"""Keeps the list of namespaces in one hash, {PREFIX}:namespaces.

    id             made with the list: what tells it from the list of an empty server
    version        counts changes
    n/NAMESPACE    its ledger's id, its wrapped key, the number of those that had its name
    o/             the gateway that is to own the ledgers below this prefix
    b/GATEWAY      the beats of a gateway that is: one a second, the last of them a goodbye

A change is decided upon a version, and written if the list still has it: two that change it at once never decide on the
same list. Beats are written without that; a field has one writer.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from oncegate.core.errors import LedgerDamaged, LedgerFull
from oncegate.ledgers.redis.address import Address
from oncegate.ledgers.redis.connection import Link, Lost, Refused, Unreachable
from oncegate.ledgers.redis.scripts import BEGIN, CHANGE
from oncegate.ledgers.server.holders import Beat, Changes, Holders

# Others that change the list at the same time end our turn; after so many there is none left to wait for.
TURNS_MAX = 20


class Namespace(msgspec.Struct, frozen=True):
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
class Listed(Holders):
    """Holds what the list says, as it was last read."""

    id: bytes = b""
    version: bytes = b""
    namespaces: dict[str, Namespace] = field(default_factory=dict)

    def take(self, name: str, value: bytes) -> None:
        """Applies one field; ValueError: it is none of these."""
        kind, _, rest = name.partition("/")
        if name == "id":
            self.id = value
        elif name == "version":
            self.version = value
        elif kind == "n":
            self.namespaces[rest] = msgspec.json.decode(value, type=Namespace)
        elif not self.take_of_gateways(kind, rest, value):
            raise ValueError(f"its field is {name!r}")


Decide = Callable[[Listed], Changes]


def list_key(prefix: str) -> str:
    """Returns the key of a prefix's list."""
    return f"{{{prefix}}}:namespaces"


class NamespaceList:
    """Reads and changes the list over a link of its own. Use `close` last."""

    def __init__(self, address: Address) -> None:
        # What it holds says whether it is the same: `id`.
        self._link = Link(address, any_server=True)
        self.key = list_key(address.prefix)
        self._turn = asyncio.Lock()
        self.listed = Listed()

    async def close(self) -> None:
        """Lets go of the connection."""
        await self._link.close()

    async def is_there(self) -> bool:
        """Tells whether there is a list; Refused, Unreachable, Lost."""
        return bool(await self._link.ask("EXISTS", self.key))

    async def begin(self, made: bytes) -> Listed:
        """Reads the list for the first time; makes it, with this id, where there is none. Errors as `refresh`."""
        await self._link.run(BEGIN, [self.key], made)
        return await self.refresh()

    async def refresh(self) -> Listed:
        """Reads the list; Refused, Unreachable, Lost: what was read stays. LedgerDamaged: another one, or none."""
        pairs = await self._link.ask("HGETALL", self.key)
        found = Listed()
        for name, value in zip(pairs[::2], pairs[1::2], strict=True):
            self._take(found, name.decode(errors="replace"), value)
        if self.listed.id not in (b"", found.id):
            raise self._gone()
        self.listed = found
        return found

    def _take(self, found: Listed, name: str, value: bytes) -> None:
        try:
            found.take(name, value)
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

    async def change(self, decide: Decide) -> None:
        """Writes what `decide` makes of the list as it is, and asks it again where somebody else came first.

        Nothing that `decide` returns: nothing is written. Raises what it raises; LedgerFull: nothing was written, or
        what was is found the next time. LedgerDamaged.
        """
        async with self._turn:
            for _ in range(TURNS_MAX):
                try:
                    changes = decide(await self.refresh())
                    if not changes or await self._changed(self.listed.version, changes):
                        return
                except (Refused, Unreachable, Lost) as error:
                    raise LedgerFull(f"the list of namespaces cannot be changed now ({error})") from error
            raise LedgerFull("the list of namespaces is changed by others all the time; nothing was written")

    async def _changed(self, version: bytes, changes: Changes) -> bool:
        fields = [one for name, value in changes for one in (name, msgspec.json.encode(value))]
        is_changed = await self._put(version, fields)
        if is_changed:
            await self.refresh()
        return is_changed

    async def beat(self, gateway: str, beat: Beat | None) -> None:
        """Writes a gateway's beat, None removes it; Refused, Unreachable, Lost, LedgerDamaged."""
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
