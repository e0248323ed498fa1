"""Names the writer of rows in external topics, for the headers of their records.

producer                                      epoch               sequence
producer:NAME                                 the producer's      the source's own
batch:["APP","TOPIC","WRITE_ID"]              the batch's version the row's index in the batch
batch:["APP","TOPIC","WRITE_ID","VERSION"]    0                   the same; for a version that is no number < 2^64
attempt:TOKEN                                 the call            the row's index among all that the call wrote

The names of a batch are JSON without blanks; characters beyond ASCII are not escaped. A token is 32 hex digits. Two
batches, producers or calls never share both text and epoch. A repeat gets the origin of the original write: all of it
follows from the request and from the ledger's record of its call.
"""

import json
import re

import numpy as np
from numpy.typing import NDArray

from oncegate.core.entries.kinds import Name, Span
from oncegate.engine.requests import ProduceRequest
from oncegate.ports import Origin

_NUMBER = re.compile("0|[1-9][0-9]{0,19}")
_EPOCHS = 1 << 64


def of_batch(namespace: str, name: Name, first: int = 0) -> Origin:
    """Returns the origin of a named batch's rows; `first` is the number of rows of the batch that precede these."""
    named = [name.app, name.topic, name.write_id]
    epoch = int(name.version) if _NUMBER.fullmatch(name.version) else _EPOCHS
    if epoch >= _EPOCHS:
        named, epoch = [*named, name.version], 0
    text = json.dumps(named, ensure_ascii=False, separators=(",", ":"))
    return Origin(namespace, f"batch:{text}", epoch, first)


def of_rows(
    namespace: str, request: ProduceRequest, rows: NDArray[np.int64] | None = None, before: tuple[Span, ...] = ()
) -> Origin:
    """Returns the origin of rows that are written at once.

    rows: int64, ascending, the indices of the request's rows that are written; None: all.
    before: the spans that earlier tries of the same call wrote.
    """
    sequenced = request.sequenced
    if sequenced is not None:
        sequences = sequenced.sequences if rows is None else sequenced.sequences[rows]
        return Origin(namespace, f"producer:{sequenced.producer}", sequenced.epoch, sequences=sequences)
    digests = request.digests if request.digests is None or rows is None else request.digests[rows]
    first = sum(span.rows for span in before)
    return Origin(namespace, f"attempt:{request.token.hex()}", request.call, first, digests=digests)
