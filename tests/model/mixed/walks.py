"""The setups of the mixed walk."""

from oncegate.index.claims.store import Widths
from tests.model.mixed.world import HORIZON_MS, Setup

NARROW = Widths(tag_bits=16, row_bits=8, capacity=8)
SETUPS = {
    "mixed": Setup(),
    "mixed, late": Setup(late=0.15, doubled=0.3, refusing=0.4),
    "mixed, narrow": Setup(NARROW, crowd=True),
    "retiring": Setup(horizon_ms=HORIZON_MS, steps=120),
    "retiring, clocks set": Setup(NARROW, horizon_ms=HORIZON_MS, stepping=0.02, crowd=True, steps=120),
}
