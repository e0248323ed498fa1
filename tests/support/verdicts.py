"""Packed answers of a scripted gateway."""

import struct
from collections.abc import Sequence

from tests.support.stub_gateway import Answer

GRANTED, TAKEOVER, DUPLICATE, OWN, SAME, OF_CALL, BUSY, IN_DOUBT = 1, 17, 2, 34, 3, 67, 4, 8
NUMBERED = {SAME, OF_CALL, BUSY}


def packed(verdicts: Sequence[int], *, claim: bool = False, lease_ms: int = 0, left_ms: int = 500) -> bytes:
    """Encodes a packed answer. `claim`: add a claim id if anything is granted. `left_ms`: lease left on a BUSY id."""
    name = b"c" * 16 if claim and {GRANTED, TAKEOVER} & set(verdicts) else bytes(16)
    pairs = [(n, left_ms if verdict == BUSY else 0) for n, verdict in enumerate(verdicts) if verdict in NUMBERED]
    numbers = b"".join(struct.pack("<II", *pair) for pair in pairs)
    return struct.pack("<16sII", name, lease_ms, len(verdicts)) + bytes(verdicts) + numbers


def produced(verdicts: Sequence[int], *offsets: tuple[int, int, int], left_ms: int = 500) -> Answer:
    """Returns the answer to rows with ids. `offsets`: partition, first offset, rows."""
    said = ",".join(":".join(str(number) for number in one) for one in offsets)
    headers = {"Oncegate-Rows": str(sum(rows for *_, rows in offsets)), "Oncegate-Offsets": said}
    return Answer(body=packed(verdicts, left_ms=left_ms), headers=headers)
