"""Builds catalogs with a given number of ranges."""

from oncegate.ledgers.catalog import Catalog, Location, Published, Wrote

RANGES = 10_000


def catalog_of(ranges: int, topics: int = 1) -> Catalog:
    catalog = Catalog()
    for number in range(ranges):
        range_id = number.to_bytes(16, "big")
        catalog.apply(Wrote(range_id, 2, Location(1, number, 4_096, 900, bytes(32))))
        catalog.apply(Published(f"t{number % topics}", 0, number // topics * 2, (range_id,)))
    return catalog
