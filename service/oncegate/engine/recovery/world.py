"""Holds what every shard of one gateway shares."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from oncegate.engine.counts.duplicate_log import DuplicateLogs
from oncegate.engine.limits import Limits
from oncegate.index.shard import ShardIndex
from oncegate.ports import Clock, Ledgers, Observer, RunFolders, Standbys

# Openings side by side: each waits for some seven syncs of the disk, and takes a thread and some descriptors meanwhile.
OPENINGS = 16


@dataclass(frozen=True)
class World:
    """Holds what every shard of one gateway shares. `standbys`: the ledgers, where it stands by for their owner.

    duplicates: where they are told one by one; None: nowhere.
    """

    ledgers: Ledgers
    runs: RunFolders
    clock: Clock
    observer: Observer
    limits: Limits
    standbys: Standbys | None = None
    make_index: Callable[[], ShardIndex] = ShardIndex
    duplicates: DuplicateLogs | None = None
    openings: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(OPENINGS))
