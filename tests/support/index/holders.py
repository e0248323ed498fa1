"""A row of each state, as the kernels see them."""

import numpy as np

from oncegate.core.claims import ClaimState
from oncegate.index.table.arrays import TAKEN, Holders

MASK, ROWS = np.uint64((1 << 64) - 1), 8
OWNER, STRANGER = (np.uint64(7), np.uint64(8)), (np.uint64(1), np.uint64(2))
# Row numbers.
DONE, TAKEN_ROW, OPEN, RELEASED, RETIRED = range(5)


def some_holders() -> Holders:
    holders = Holders(
        token=np.zeros((ROWS, 2), np.uint64),
        call=np.zeros(ROWS, np.uint32),
        state=np.full(ROWS, ClaimState.UNKNOWN, np.uint8),
        takeover=np.zeros(ROWS, np.uint8),
        lease_until_ms=np.full(ROWS, 100, np.int64),
        position=np.arange(10, 10 + ROWS),
        named=np.zeros(ROWS, np.int32),
        slots=np.zeros(ROWS, np.int32),
        pins=np.zeros(ROWS, np.int32),
        remembered=np.zeros(ROWS, np.uint8),
    )
    holders.state[:4] = ClaimState.DONE, TAKEN, ClaimState.OPEN, ClaimState.RELEASED
    holders.token[TAKEN_ROW] = OWNER
    return holders
