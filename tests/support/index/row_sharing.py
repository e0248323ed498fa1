"""Indexes whose completed claims share rows early, and the work that shares them."""

from dataclasses import replace

from oncegate.index.claims import row_sharing
from oncegate.index.claims.row_sharing import BUCKET_BITS
from oncegate.index.claims.store import Widths
from tests.support.index.verbs import VerbDriver

BUCKET_MS = 1 << BUCKET_BITS
LATER_MS = BUCKET_MS * (row_sharing.BUCKETS_BETWEEN + 1)
NEVER = Widths(tag_bits=16, row_bits=16, capacity=8, segments=4)
EAGER = replace(NEVER, pool_from=2)


def many(driver: VerbDriver, claims: int, ids: int = 1) -> None:
    """Completes claims of a few ids each, and advances the clock until they are forgotten and their bucket is over."""
    for call in range(claims):
        driver.complete(driver.claim("a", call, range(call * ids, (call + 1) * ids)).claim)
    driver.now_ms += LATER_MS
    driver.complete(driver.claim("later", driver.position, [10**6 + driver.position]).claim)


def go_round(driver: VerbDriver) -> None:
    """Forgets expired claims, then makes requests until nothing more is pooled."""
    driver.index.sweep(driver.now_ms)
    for _ in range(2_000):
        driver.index.make_room(1, driver.now_ms)
