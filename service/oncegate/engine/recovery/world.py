"""Holds what every shard of one gateway shares."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from oncegate.engine.counts.duplicate_log import DuplicateLogs
from oncegate.engine.limits import Limits
from oncegate.engine.producer_requests import Note
from oncegate.index.shard import ShardIndex
from oncegate.ports import Clock, Ledgers, Observer, RunFolders, Standbys

# Openings side by side: each waits for some seven syncs of the disk, and takes a thread and some descriptors meanwhile.
OPENINGS = 16


@dataclass
class World:
    """Holds what every shard of one gateway shares. `standbys`: the ledgers, where it stands by for their owner.

    duplicates: where they are logged one by one; None: nowhere. draining: why no new work is taken, as the operator who
    drains the gateway has written; None: it is taken.
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
