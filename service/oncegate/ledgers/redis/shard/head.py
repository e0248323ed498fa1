"""Names the keys of one namespace's ledger on Redis; reads and takes its head: the owner, and the end of the ledger.

head      hash: ledger, fence, holder; serial, position and chain of the last frame
frames    stream: a frame a record, with its serial for an id
rows      stream: the rows of output ranges, with the serial of their frame and a number for an id
states    stream: pieces of the snapshot that replaces compacted entries

A fence is a number that each opening raises, and each connection of an owner; only frames with the last fence are
taken. Frames that an older connection has sent, and that the server reads later, are refused by it: nothing in doubt
comes afterwards.
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
    """Names one ledger: `listed` is what the list says of it."""

    namespace: str
    listed: RedisNamespace
    address: Address
    keys: Keys

    @property
    def name(self) -> str:
        """Returns what its keys begin with, and its witness: of nobody else, also after its namespace was deleted."""
        return f"{self.address.prefix}/{self.namespace}/{self.listed.number}"

    @property
    def head(self) -> str:
        """Returns the key of the owner and the end."""
        return self._key("head")

    @property
    def frames(self) -> str:
        """Returns the key of the ledger itself."""
        return self._key("frames")

    @property
    def where(self) -> str:
        return self.frames

    @property
    def rows(self) -> str:
        """Returns the key of output ranges."""
        return self._key("rows")

    @property
    def states(self) -> str:
        """Returns the key of the snapshot that replaces compacted entries."""
        return self._key("states")

    def _key(self, what: str) -> str:
        # One hash tag: a script has to find all of them on one node.
        return f"{{{self.name}}}:{what}"


@dataclass(frozen=True, slots=True)
class Head:
    """Holds what the head said: the last fence, who has it, and where the ledger ends."""

    fence: int
    holder: bytes
    end: End


_FIELDS = ("ledger", "fence", "holder", "serial", "position", "chain")


async def read_head(link: Link, place: RedisPlace) -> Head:
    """Returns the head as it is now. LedgerDamaged: it is gone, or another ledger's; Refused, Unreachable, Lost."""
    ledger, fence, holder, serial, position, chain = await link.ask("HMGET", place.head, *_FIELDS)
    if ledger is None:
        raise gone(place)
    if ledger != place.listed.ledger:
        raise foreign(place)
    return Head(int(fence), holder or b"", End(int(serial), int(position), chain))


async def take(link: Link, place: RedisPlace, read: Head, holder: bytes) -> Head | None:
    """Takes the ledger, if nobody has since `read`: None. Errors as `read_head`; Lost where replicas lack it, too."""
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
    """Returns the command that waits for replicas behind a write, where some are to have it, and what it may take."""
    address = place.address
    if not address.wait_replicas:
        return (), 0
    return [("WAIT", address.wait_replicas, address.wait_ms)], address.wait_ms


def require_replicas(place: RedisPlace, waited: Sequence[object]) -> None:
    """Raises Lost where fewer replicas than asked for have it: it is on the primary, which may fail over without it."""
    for count in waited:
        if not isinstance(count, int) or count < place.address.wait_replicas:
            raise Lost(f"{count} of {place.address.wait_replicas} replicas had it in {place.address.wait_ms} ms")


def gone(place: RedisPlace) -> LedgerDamaged:
    """Returns the error for a ledger whose head is missing."""
    return LedgerDamaged(
        f"key {place.head} is gone: the server was flushed, emptied, or is another one; nothing was written, put back "
        "what it held"
    )


def foreign(place: RedisPlace) -> LedgerDamaged:
    """Returns the error for keys of another ledger."""
    return LedgerDamaged(
        f"key {place.head} and those beside it are of another ledger than the list of namespaces says; nothing was "
        "written, put back what belongs together"
    )


def changed_by_others(place: RedisPlace) -> LedgerFull:
    return LedgerFull(f"{place.head} is taken by others all the time; nothing was written")
