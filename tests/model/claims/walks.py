"""The ways to run the walk of claims."""

from oncegate.core.claims import LeaseExpiry
from oncegate.index.claims.store import Widths
from tests.model.claims.world import Setup

SETUPS = {
    "default": Setup(),
    "narrow": Setup(Widths(tag_bits=16, row_bits=8, capacity=8, segments=4), chaff=True),
    # Most of what broke earlier rules came late, or after a release.
    "late": Setup(late=0.15, doubled=0.25, refusing=0.4),
    # Nobody takes over: others wait, or are stopped at once.
    "hold": Setup(refusing=0.3, expiry=LeaseExpiry.HOLD),
    "fail": Setup(refusing=0.3, expiry=LeaseExpiry.FAIL),
    # Seven rows in all: they run out, and claims are forgotten before their time.
    "starved": Setup(Widths(tag_bits=16, row_bits=3, capacity=2, segments=2), chaff=True),
}
