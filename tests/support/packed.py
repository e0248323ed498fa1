"""Decodes the gateway's packed answers."""

import struct

import numpy as np

from oncegate.engine.requests import ClaimResult

_HEAD = struct.Struct("<16sII")
_NO_CLAIM = bytes(16)


def read_claim_packed(body: bytes) -> ClaimResult:
    """Decodes the output of `claim_packed`. Raises ValueError for anything else."""
    claim, lease_ms, count = _HEAD.unpack_from(body)
    verdicts = np.frombuffer(body, np.uint8, count, _HEAD.size)
    pairs = np.frombuffer(body, "<u4", offset=_HEAD.size + count).reshape(-1, 2)
    numbers = np.zeros(count, np.uint32)
    numbers[pairs[:, 0]] = pairs[:, 1]
    return ClaimResult(None if claim == _NO_CLAIM else claim, lease_ms, verdicts, numbers)
