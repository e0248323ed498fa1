"""Defines the keys of a namespace's ledger on Redis, and reads and acquires its head.

head      hash: ledger, fence, holder; serial, position and chain of the last frame
frames    stream: one record per frame; its id is the frame's serial
rows      stream: output ranges; the id is the serial of the frame and a number
states    stream: pieces of the snapshot that replaces compacted entries

A fence is a number that is raised by each opening and each new connection of the owner. Only frames with the current
fence are accepted. A frame of an older connection that arrives late is therefore refused: once the fence is raised, no
write in doubt can take effect.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from oncegate.core.errors import LedgerDamaged, LedgerFull
from oncegate.ledgers.frames import End
from oncegate.ledgers.keys import Keys
from oncegate.ledgers.redis.address import Address
from oncegate.ledgers.redis.connection import Link, Lost
from oncegate.ledgers.redis.namespaces import RedisNamespace
from oncegate.ledgers.redis.scripts import OWN


@dataclass(frozen=True, slots=True)
class RedisPlace:
    """Location of one ledger. `listed`: its entry in the list of namespaces."""

    namespace: str
    listed: RedisNamespace
    address: Address
    keys: Keys

    @property
    def name(self) -> str:
        """Returns the prefix of the ledger's keys, also the name of its rollback check;
        never reused, even after a deletion.
        """
        return f"{self.address.prefix}/{self.namespace}/{self.listed.number}"

    @property
    def head(self) -> str:
        """Returns the key of the head, which holds the ledger's owner and end."""
        return self._key("head")

    @property
    def frames(self) -> str:
        return self._key("frames")

    @property
    def where(self) -> str:
        return self.frames

    @property
    def rows(self) -> str:
        return self._key("rows")

    @property
    def states(self) -> str:
        """Returns the key of the snapshot that replaces compacted entries."""
        return self._key("states")

    def _key(self, what: str) -> str:
        # A single hash tag: a script requires all its keys on one node.
        return f"{{{self.name}}}:{what}"


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a ledger: its current fence, the fence's holder, and the ledger's end."""

    fence: int
    holder: bytes
    end: End


_FIELDS = ("ledger", "fence", "holder", "serial", "position", "chain")


async def read_head(link: Link, place: RedisPlace) -> Head:
    """Reads the current head. Raises LedgerDamaged: missing, or another ledger's; Refused, Unreachable, Lost."""
    ledger, fence, holder, serial, position, chain = await link.ask("HMGET", place.head, *_FIELDS)
    if ledger is None:
        raise gone(place)
    if ledger != place.listed.ledger:
        raise foreign(place)
    return Head(int(fence), holder or b"", End(int(serial), int(position), chain))


async def take(link: Link, place: RedisPlace, read: Head, holder: bytes) -> Head | None:
    """Raises the fence if it is still the one in `read`; returns the new head, or None if the fence has changed.

    Raises as `read_head`; Lost also if too few replicas have the new fence in time.
    """
    answer, *waited = await link.run_then(OWN, [place.head], (place.listed.ledger, read.fence, holder), *waiting(place))
    match answer:
        case [b"OK", fence, serial, position, chain]:
            require_replicas(place, waited)
            return Head(int(fence), holder, End(int(serial), int(position), chain))
        case [b"CHANGED"]:
            return None
        case [b"FOREIGN"]:
            raise foreign(place)
        case _:
            raise gone(place)


def waiting(place: RedisPlace) -> tuple[Sequence[tuple[str, int, int]], int]:
    """Returns the command that waits for replicas after a write, if any, and its timeout in ms."""
    address = place.address
    if not address.wait_replicas:
        return (), 0
    return [("WAIT", address.wait_replicas, address.wait_ms)], address.wait_ms


def require_replicas(place: RedisPlace, waited: Sequence[object]) -> None:
    """Raises Lost if too few replicas have a write, which is on the primary but may be lost in a failover."""
    for count in waited:
        if not isinstance(count, int) or count < place.address.wait_replicas:
            raise Lost(f"{count} of {place.address.wait_replicas} replicas had it in {place.address.wait_ms} ms")


def gone(place: RedisPlace) -> LedgerDamaged:
    return LedgerDamaged(
        f"key {place.head} is gone: the server was flushed, emptied, or is another one; nothing was written, put back "
        "what it held"
    )


def foreign(place: RedisPlace) -> LedgerDamaged:
    return LedgerDamaged(
        f"key {place.head} and those beside it are of another ledger than the list of namespaces says; nothing was "
        "written, put back what belongs together"
    )


def changed_by_others(place: RedisPlace) -> LedgerFull:
    return LedgerFull(f"{place.head} is taken by others all the time; nothing was written")
