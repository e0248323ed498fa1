"""Bounds uncommitted stages by quota, free disk, newer owners and time to live."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from oncegate.core.entries.kinds import Dropped, Name
from oncegate.core.errors import QuotaExceeded
from oncegate.engine.commit.journal import Journal
from oncegate.engine.counters import QUOTA_STAGES
from oncegate.ports import DropRanges

# Prefix of an owner that is a run of a streaming query. A query has one run at a time, so a later run replaces it.
STREAMING_OWNER = "run:"


@dataclass
class _Owner:
    """The activity of a stage owner; `since` orders owners by the time when they were first seen."""

    since: int
    last_call_ms: int


class StageQuota:
    """The limits of uncommitted stages. A commit whose stages were dropped is answered MISSING_STAGE."""

    def __init__(self, journal: Journal, free_bytes: Callable[[], tuple[int, int]]) -> None:
        self._journal = journal
        self._free_bytes = free_bytes
        self._index = journal.index.batches
        self._last_call_ms: dict[Name, int] = {}
        self._owners: dict[tuple[str, str, str], _Owner] = {}
        self._seen = 0
        for name, stage in sorted(self._index.all_stages(), key=lambda item: item[1].first_position):
            self.touch(name, stage.owner)

    def touch(self, name: Name, owner: str) -> None:
        """Records that `owner` has made a call under this name."""
        now_ms = self._journal.clock.monotonic_ms()
        self._last_call_ms[name] = now_ms
        self._seen += 1
        known = self._owners.setdefault((name.app, name.topic, owner), _Owner(self._seen, now_ms))
        known.last_call_ms = now_ms

    def make_room(self, name: Name, owner: str, size_bytes: int) -> None:
        """Checks quota and free disk space for one more chunk, and drops stages of older owners if that makes it fit.

        Raises QuotaExceeded: nothing of this chunk was written.
        """
        self._drop_older(name, owner, self._journal.limits.stage_idle_ms)
        if self._fits(size_bytes):
            return
        self._drop_older(name, owner, 0)
        if not self._fits(size_bytes):
            self._journal.counts.add(QUOTA_STAGES)
            raise QuotaExceeded(self._why_full(size_bytes))

    def _fits(self, size_bytes: int) -> bool:
        return self._within_quota(size_bytes) and self._disk_room_bytes() >= size_bytes

    def _within_quota(self, size_bytes: int) -> bool:
        return self._index.stage_bytes + size_bytes <= self._journal.limits.stage_bytes

    def _disk_room_bytes(self) -> float:
        free, total = self._free_bytes()
        return free - self._journal.limits.disk_floor_bytes(total) if total > 1 else math.inf

    def _why_full(self, size_bytes: int) -> str:
        staged, limits = self._index.stage_bytes, self._journal.limits
        if not self._within_quota(size_bytes):
            return f"{staged} bytes are staged; {size_bytes} more are above stage_bytes, {limits.stage_bytes}"
        free, total = self._free_bytes()
        kept = limits.disk_floor_bytes(total)
        return f"the disk of the stages is nearly full: {free} of its {total} bytes are free, and {kept} stay free"

    def _drop_older(self, name: Name, owner: str, idle_ms: int) -> None:
        """Drops the stages that older owners left under the same name or in the same streaming query, if idle for
        `idle_ms`."""
        for other in list(self._index.stages):
            older = [
                stage.token
                for stage in self._index.stages[other].values()
                if (other == name or _same_query(name, owner, other, stage.owner))
                and self._replaces(owner, stage.owner, other, idle_ms)
            ]
            if older:
                self.drop(other, older, "a later owner came")

    def _replaces(self, owner: str, older: str, name: Name, idle_ms: int) -> bool:
        mine = self._owners[(name.app, name.topic, owner)] if owner != older else None
        theirs = self._owners.get((name.app, name.topic, older))
        if mine is None or theirs is None or theirs.since > mine.since:
            return False
        return self._journal.clock.monotonic_ms() - theirs.last_call_ms >= idle_ms

    def drop(self, name: Name, tokens: Sequence[bytes], why: str) -> int:
        """Removes these stages; returns the position of the entry that records it."""
        stages = [stage for token in tokens if (stage := self._index.stage(name, token)) is not None]
        ranges = [part.range_id for stage in stages for part in stage.parts]
        entry = Dropped(name, tuple(tokens), why, self._journal.wall_ms())
        return self._journal.record([entry], [DropRanges(tuple(ranges))])

    def sweep(self) -> None:
        """Drops stages whose batch name had no call within the time to live, and forgets owners without stages."""
        now_ms, ttl_ms = self._journal.clock.monotonic_ms(), self._journal.limits.stage_ttl_ms
        for name in list(self._index.stages):
            # A refused append restores stages whose last call is no longer known.
            if now_ms - self._last_call_ms.setdefault(name, now_ms) >= ttl_ms and self._journal.group_commit.open:
                self.drop(name, list(self._index.stages[name]), "time to live")
        staged = {(name.app, name.topic, stage.owner) for name, stage in self._index.all_stages()}
        self._owners = {key: owner for key, owner in self._owners.items() if key in staged}
        self._last_call_ms = {name: ms for name, ms in self._last_call_ms.items() if name in self._index.stages}


def _same_query(name: Name, owner: str, other: Name, older: str) -> bool:
    runs = owner.startswith(STREAMING_OWNER) and older.startswith(STREAMING_OWNER)
    return runs and (name.app, name.topic) == (other.app, other.topic)
