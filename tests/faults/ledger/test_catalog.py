"""The catalog as small pieces that reproduce it."""

from oncegate.ledgers.catalog import Catalog, Location, Published, Wrote
from tests.support.catalogs import RANGES, catalog_of

# Larger pieces would block other requests for too long.
PIECE_BYTES_MAX = 300 << 10


def again(pieces: list[bytes]) -> Catalog:
    catalog = Catalog()
    for piece in pieces:
        catalog.take(piece)
    return catalog


def test_the_ranges_of_a_topic_are_many_small_pieces_that_make_the_same_again() -> None:
    catalog = catalog_of(RANGES)
    pieces = list(catalog.pieces())
    assert max(map(len, pieces)) <= PIECE_BYTES_MAX
    assert sum(map(len, pieces)) <= 81 * RANGES
    found = again(pieces).find("t0", 0, 0, 1 << 40, 1 << 40)
    assert found == catalog.find("t0", 0, 0, 1 << 40, 1 << 40)
    assert len(found) == RANGES


def test_many_topics_and_ranges_that_wait_are_small_pieces_too() -> None:
    catalog = catalog_of(RANGES, topics=RANGES)
    for number in range(RANGES):
        range_id = (RANGES + number).to_bytes(16, "big")
        catalog.apply(Wrote(range_id, 1, Location(2, number, 0, 1, bytes(32))))
    pieces = list(catalog.pieces())
    assert max(map(len, pieces)) <= PIECE_BYTES_MAX
    found = again(pieces)
    assert found.ranges_waiting == RANGES
    assert list(found.topics()) == list(catalog.topics())


def test_pieces_hold_the_catalog_at_the_time_of_the_request() -> None:
    catalog = catalog_of(3)
    pieces = catalog.pieces()
    catalog.apply(Wrote(b"later" * 3 + b".", 1, Location(2, 1, 0, 1, bytes(32))))
    catalog.apply(Published("t0", 0, 6, (b"later" * 3 + b".",)))
    assert again(list(pieces)).offsets("t0", 0) == (0, 6)


def test_the_bytes_of_a_piece() -> None:
    """Permanent: a change here is a new format."""
    pieces = list(catalog_of(1).pieces())
    ranges = b"".join(number.to_bytes(8, "little") for number in (0, 2, 1, 0, 4_096, 900)) + bytes(32)
    assert pieces == [b"\x91\x95\x06\xa2t0\x00\x00\xc4\x50" + ranges]
