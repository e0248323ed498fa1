"""Reads and takes the head of a ledger: who owns it, and where it ends.

A fence is a number that each opening raises, and each connection of an owner; a frame is taken with the last one alone.
What an older connection has sent, and the server reads later, is refused by that: nothing in doubt comes afterwards.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from oncegate.core.errors import LedgerDamaged, LedgerFull
from oncegate.ledgers.frames import End
from oncegate.ledgers.redis.connection import Link, Lost
from oncegate.ledgers.redis.scripts import OWN
from oncegate.ledgers.redis.shard.place import RedisPlace


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
    """Makes the error for a ledger whose head is not there."""
    return LedgerDamaged(
        f"key {place.head} is gone: the server was flushed, emptied, or is another one; nothing was written, put back "
        "what it held"
    )


def foreign(place: RedisPlace) -> LedgerDamaged:
    """Makes the error for keys of another ledger."""
    return LedgerDamaged(
        f"key {place.head} and those beside it are of another ledger than the list of namespaces says; nothing was "
        "written, put back what belongs together"
    )


def changed_by_others(place: RedisPlace) -> LedgerFull:
    """Makes the error for a ledger that others take all the time."""
    return LedgerFull(f"{place.head} is taken by others all the time; nothing was written")
