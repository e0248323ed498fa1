"""The environment that all shards of a gateway share."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from oncegate.engine.counts.duplicate_log import DuplicateLogs
from oncegate.engine.limits import Limits
from oncegate.engine.producer_requests import Note
from oncegate.index.shard import ShardIndex
from oncegate.ports import Clock, Ledgers, Observer, RunFolders, Standbys

# Limit of concurrent openings: each waits for some seven disk syncs, and uses a thread and some descriptors.
OPENINGS = 16


@dataclass
class World:
    """The environment that all shards of a gateway share.

    standbys: the ledgers, if this gateway can stand by for their owner. duplicates: the log of single duplicates; None:
    no log. draining: the note of the operator who drained the gateway; None: the gateway accepts new work.
    """

    ledgers: Ledgers
    runs: RunFolders
    clock: Clock
    observer: Observer
    limits: Limits
    standbys: Standbys | None = None
    make_index: Callable[[], ShardIndex] = ShardIndex
    duplicates: DuplicateLogs | None = None
    draining: Note | None = None
    openings: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(OPENINGS))
