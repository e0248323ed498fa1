"""Guards for tests, which need client settings, and batches to commit."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import pytest

from oncegate.ledgers.kafka.partition import Partition
from oncegate.ledgers.kafka.record_batch import record_batches
from oncegate.ledgers.kafka.transactions.ends import NotStarted
from oncegate.ledgers.kafka.transactions.guard import Guard
from oncegate.ledgers.kafka.transactions.sending import Batch
from oncegate.ledgers.kafka.watch import Deadlines

PATIENT = Deadlines(start_ms=60_000, send_ms=60_000, commit_ms=60_000, transaction_ms=150_000)
_names = count()


def new_id() -> str:
    return f"shard-{next(_names):03}"


@asynccontextmanager
async def started(settings: dict[str, Any], name: str, deadlines: Deadlines = PATIENT) -> AsyncIterator[Guard]:
    guard = Guard(settings, name, deadlines)
    await guard.start()
    try:
        yield guard
    finally:
        await guard.close()


async def refused_at_start(settings: dict[str, Any], name: str = "shard") -> str:
    """Returns the error message of a guard that fails to start."""
    guard = Guard(settings, name, PATIENT)
    with pytest.raises(NotStarted) as refused:
        await guard.start()
    assert guard.closed
    return str(refused.value)


def batch(partition: Partition, *values: bytes) -> Batch:
    (encoded,) = record_batches([(None, value) for value in values])
    return Batch(partition, encoded)
