"""Turns a ledger into a serving shard: replays its entries into an index and begins a new epoch."""

import asyncio
from contextlib import AsyncExitStack
from functools import partial

from oncegate.core.entries.codec import encode
from oncegate.core.entries.kinds import Opened
from oncegate.core.errors import BadRequest, LedgerBehind, LedgerDamaged, LedgerFull
from oncegate.engine.commit.marks import Marks
from oncegate.engine.counts.counts import Counts
from oncegate.engine.maintenance.run_files import RunFiles
from oncegate.engine.recovery.cold_tier import Dropping, open_runs
from oncegate.engine.recovery.replay import Upkeep, replay
from oncegate.engine.recovery.world import World
from oncegate.engine.shard import Shard
from oncegate.hashing.keys import FUNCTION, key_check
from oncegate.index.shard import ShardIndex
from oncegate.ports import Followed, Mark, OpenLedger


async def opened_shard(
    stack: AsyncExitStack,
    world: World,
    namespace: str,
    followed: Followed,
    counts: Counts,
    seen: Mark | None = None,
) -> Shard:
    """Replays the ledger into an index (on a standby, continuously while the ledger grows), then begins a new epoch.

    Args:
        seen: the last ledger position that this process knows.
        stack: closes what is opened in addition to the ledger.

    Raises:
        LedgerDamaged: the ledger does not contain `seen`; nothing was appended.
        BadRequest: the ledger stores no rows.
        Other errors as opening and replaying.
    """
    if followed.outputs is None:
        raise BadRequest(
            f"the ledger of namespace {namespace} holds no rows, and rows and ids that leave memory have to "
            "lie there: name another ledger; nothing was written"
        )
    index = world.make_index()
    index.claims.registry.remember_for(world.limits.settled_claim_ms, world.limits.settled_claims_bytes)
    index.claims.rows.results.keep_within(world.limits.results_bytes)
    marks = Marks(followed.ledger, followed.predecessors, followed.compacted())
    check, again = key_check(followed.key), Dropping(index.claims, followed.outputs)
    upkeep = Upkeep(world.clock.monotonic_ms, followed.compacted) if followed.standing() else None
    now_ms = world.clock.monotonic_ms()
    size_bytes = await replay(index, followed.batches, marks, check, now_ms, again, upkeep=upkeep)
    opened = followed.opened()
    _require_seen(marks, namespace, seen)
    files = await _old_ids(stack, world, namespace, opened, index, marks)
    await _begin_epoch(world, opened, index, marks)
    shard = _shard_of(world, namespace, opened, index, marks, files, counts)
    shard.journal.size_bytes = size_bytes
    return shard


def _require_seen(marks: Marks, namespace: str, seen: Mark | None) -> None:
    """Raises LedgerDamaged if the ledger has lost a position that this process acknowledged. Works without a `witness`
    file."""
    if seen is None or seen.ledger != marks.ledger:
        return
    try:
        marks.require(seen)
    except LedgerBehind as error:
        raise LedgerDamaged(
            f"the ledger of namespace {namespace} has lost what this gateway acknowledged: {error.detail}; nothing was "
            "written, put the newer copy back"
        ) from error


async def _old_ids(
    stack: AsyncExitStack, world: World, namespace: str, opened: OpenLedger, index: ShardIndex, marks: Marks
) -> RunFiles:
    """Opens the sorted run files of evicted ids, or rebuilds them."""
    assert opened.outputs is not None
    runs = await stack.enter_async_context(world.runs.open(namespace, opened))
    filters = world.limits.cold_filter, world.limits.cold_fpr
    files = await asyncio.to_thread(RunFiles, runs, marks, *filters)
    await open_runs(index.claims, opened.outputs, files, world.limits, world.observer, namespace)
    return files


async def _begin_epoch(world: World, opened: OpenLedger, index: ShardIndex, marks: Marks) -> None:
    """Appends the entry of this epoch, which fences all earlier owners; restarts all open leases."""
    entry = Opened(opened.history.epoch, FUNCTION, key_check(opened.key), world.clock.wall_ms())
    marks.add(await opened.ledger.append([encode(entry)], []))
    index.claims.rows.reset_leases(world.clock.monotonic_ms())
    index.producers.reset_leases(world.clock.monotonic_ms())


def _shard_of(
    world: World, namespace: str, opened: OpenLedger, index: ShardIndex, marks: Marks, files: RunFiles, counts: Counts
) -> Shard:
    shard = Shard(namespace, opened, index, marks, world.clock, world.observer, world.limits, files, counts)
    shard.group_commit.room.when_full = partial(_tell_room, world, namespace)
    if opened.storage.free_bytes()[0] <= 0:
        shard.group_commit.room.begin_full(LedgerFull("the disk is full; nothing was written"))
    return shard


def _tell_room(world: World, namespace: str, error: LedgerFull | None) -> None:
    name, detail = ("ledger_has_room", "all is written again") if error is None else ("ledger_full", error.detail)
    world.observer.event(name, namespace=namespace, detail=detail)
