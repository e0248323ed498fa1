"""Reads rows of topics back from a shard's stream, by what a catalog says."""

from contextlib import aclosing

from oncegate.core.errors import LedgerDamaged, LedgerDown
from oncegate.ledgers.catalog.catalog import Catalog
from oncegate.ledgers.redis.connection import Link, Lost, Refused, Unreachable
from oncegate.ledgers.redis.shard.place import RedisPlace
from oncegate.ledgers.redis.shard.reading import bytes_at
from oncegate.ports import Chunk


async def rows_of(
    link: Link, place: RedisPlace, catalog: Catalog, asked: tuple[str, int, int, int, int]
) -> list[Chunk]:
    """Returns published rows as `Outputs.fetch` does; each range's SHA-256 is verified.

    `asked`: the arguments of `fetch`. OffsetTrimmed, LedgerDamaged, LedgerDown.
    """
    found = catalog.find(*asked)
    try:
        async with aclosing(bytes_at(link, place.rows, [one.location for one in found])) as data:
            rows = [one async for one in data]
    except LedgerDamaged:
        catalog.find(*asked)  # OffsetTrimmed, if it was trimmed meanwhile
        raise
    except (Refused, Unreachable, Lost) as error:
        raise LedgerDown(f"key {place.rows} cannot be read now: {error}") from error
    return [Chunk(one.first_offset, one.rows, data) for one, data in zip(found, rows, strict=True)]
