"""The ways to run the walk of claims."""

from oncegate.index.claims.index import Widths
from tests.model.claims.world import Setup

SETUPS = {
    "default": Setup(),
    "narrow": Setup(Widths(tag_bits=16, row_bits=8, capacity=8, segments=4), chaff=True),
    # Most of what broke earlier rules came late, or after a release.
    "late": Setup(late=0.15, doubled=0.25, refusing=0.4),
    # Seven rows in all: they run out, and claims are forgotten before their time.
    "starved": Setup(Widths(tag_bits=16, row_bits=3, capacity=2, segments=2), chaff=True),
}
