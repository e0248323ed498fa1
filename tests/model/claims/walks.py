"""The setups of the walk of claims."""

from oncegate.core.claims import LeaseExpiry
from oncegate.index.claims.store import Widths
from tests.model.claims.world import Setup

SETUPS = {
    "default": Setup(),
    "narrow": Setup(Widths(tag_bits=16, row_bits=8, capacity=8, segments=4), chaff=True),
    # Most failures of earlier rules involved late messages or a release.
    "late": Setup(late=0.15, doubled=0.25, refusing=0.4),
    # Without takeovers: other attempts wait, or are rejected at once.
    "hold": Setup(refusing=0.3, expiry=LeaseExpiry.HOLD),
    "fail": Setup(refusing=0.3, expiry=LeaseExpiry.FAIL),
    # Seven rows in total: they run out, and claims are forgotten early.
    "starved": Setup(Widths(tag_bits=16, row_bits=3, capacity=2, segments=2), chaff=True),
}
