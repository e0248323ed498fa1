"""Checks compaction, the replacement of entries by an equivalent snapshot. Part of the conformance suite."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack

from oncegate.core.errors import LedgerBusy
from oncegate.ports import Ability, DropRanges, Ledger, Mark, Replayed, TrimRanges
from oncegate.testing.ledger_places import (
    BIG,
    NAMESPACE,
    Checks,
    LedgersUnderTest,
    chunk_of,
    is_refused,
    opened_at,
    outputs_of,
    publish,
    range_of,
    read,
    replayed,
    require,
    snapshot_of,
)


async def _append(ledger: Ledger, *numbers: int) -> Mark:
    for number in numbers:
        await ledger.append([b"entry %d" % number], [])
    return ledger.mark


async def _replaced(ledger: Ledger, mark: Mark, snapshot: Sequence[bytes], later: Sequence[bytes]) -> None:
    """Checks that a replay returns the snapshot, then the later entries."""
    entries = await replayed(ledger)
    wanted = [Replayed(mark.position, body, mark) for body in snapshot]
    require(entries[: len(snapshot)] == wanted, "replay the snapshot at the compacted position, with the mark of it")
    rest = [(entry.position, bytes(entry.body)) for entry in entries[len(snapshot) :]]
    require(
        rest == [(mark.position + 1 + i, body) for i, body in enumerate(later)],
        "replay what was appended after the compacted position as it was",
    )
    require(
        await read(ledger, mark.position + 1) == rest,
        "replay from the position after a compaction without the snapshot",
    )


async def compacted_entries_are_replaced(under_test: LedgersUnderTest) -> None:
    """Checks that the snapshot is read in place of the entries, now and after reopening."""
    snapshot = [b"state", b"", b"of several" * 1_000]
    async with opened_at(under_test) as opened:
        ledger = opened.ledger
        mark = await _append(ledger, 1, 2, 3)
        last = await _append(ledger, 4, 5)
        await ledger.compact(mark.position, snapshot_of(*snapshot))
        require(ledger.mark == last, "keep its mark in a compaction")
        await _replaced(ledger, mark, snapshot, [b"entry 4", b"entry 5"])
        after = await ledger.append([b"entry 6"], [])
        require(after.position == 6, "go on in the positions after a compaction")
        require((await replayed(ledger, 6))[0].mark == after, "give the mark of each append after a compaction")
    async with opened_at(under_test) as opened:
        require(opened.ledger.mark == after, "open with the mark it had, after a compaction too")
        require(opened.history.compacted == mark.position, "tell up to where it was compacted when it is opened")
        await _replaced(opened.ledger, mark, snapshot, [b"entry 4", b"entry 5", b"entry 6"])


async def everything_can_be_compacted_again(under_test: LedgersUnderTest) -> None:
    """Checks that a snapshot, even an empty one, is replaced by the next."""
    async with opened_at(under_test) as opened:
        for life in range(3):
            mark = await _append(opened.ledger, 10 * life, 10 * life + 1)
            snapshot = [b"life %d" % life] * life  # the first has no entries at all
            await opened.ledger.compact(mark.position, snapshot_of(*snapshot))
            await _replaced(opened.ledger, mark, snapshot, [])
        await opened.ledger.compact(mark.position, snapshot_of(b"the same place again"))
        await _replaced(opened.ledger, mark, [b"the same place again"], [])
    async with opened_at(under_test) as opened:
        require(opened.ledger.mark == mark, "open with its mark when nothing came after the compaction")
        await _replaced(opened.ledger, mark, [b"the same place again"], [])
        await opened.ledger.compact(mark.position, snapshot_of())
    async with opened_at(under_test) as opened:
        require(opened.ledger.mark == mark, "open with its mark when no entry is left")
        require(await read(opened.ledger) == [], "keep a snapshot without entries")
        await opened.ledger.append([b"after"], [])
        require(await read(opened.ledger) == [(mark.position + 1, b"after")], "go on after an empty snapshot")


async def a_compaction_is_durable(under_test: LedgersUnderTest) -> None:
    """Checks that an acknowledged compaction survives a crash."""
    async with opened_at(under_test) as opened:
        mark = await _append(opened.ledger, 1, 2)
        await _append(opened.ledger, 3)
        await opened.ledger.compact(mark.position, snapshot_of(b"state"))
        under_test.crash()
    async with opened_at(under_test) as opened:
        await _replaced(opened.ledger, mark, [b"state"], [b"entry 3"])
        second = await _append(opened.ledger, 4)
        await opened.ledger.compact(second.position, snapshot_of(b"state 2"))
        await _append(opened.ledger, 5)
        under_test.crash()
    async with opened_at(under_test) as opened:
        await _replaced(opened.ledger, second, [b"state 2"], [b"entry 5"])


async def outputs_outlive_a_compaction(under_test: LedgersUnderTest) -> None:
    """Checks that a compaction leaves rows, topics and waiting ranges unchanged."""
    ranges = [range_of(number, 10, f"s{number % 2}") for number in range(1, 6)]
    async with opened_at(under_test) as opened:
        ledger, outputs = opened.ledger, outputs_of(opened)
        await ledger.append([b"a"], ranges)
        await ledger.append([b"b"], [publish(0, 1, 2), DropRanges((ranges[2].range_id,)), publish(0, 4, topic="u")])
        mark = await ledger.append([b"c"], [TrimRanges("t", 0, 10), range_of(6, 0), publish(20, 6)])
        await ledger.compact(mark.position, snapshot_of(b"state"))
        require(await outputs.fetch("t", 0, 10, 99, BIG) == [chunk_of(10, ranges[1])], "serve rows across a compaction")
        under_test.crash()
    async with opened_at(under_test) as opened:
        ledger, outputs = opened.ledger, outputs_of(opened)
        require(await outputs.fetch("t", 0, 10, 99, BIG) == [chunk_of(10, ranges[1])], "keep rows across a compaction")
        require(await outputs.fetch("u", 0, 0, 99, BIG) == [chunk_of(0, ranges[3])], "keep topics across a compaction")
        require(await _publishes(ledger, 20, 5), "keep ranges that wait across a compaction")
        chunks = await outputs.fetch("t", 0, 20, 99, BIG)
        require(chunks == [chunk_of(20, ranges[4])], "keep the rows of ranges that wait across a compaction")
        require(not await _publishes(ledger, 30, 3), "never publish a range that was dropped before a compaction")


async def _publishes(ledger: Ledger, first_offset: int, number: int) -> bool:
    """Returns whether publishing the range succeeds, which shows that the range still waited for publication."""
    try:
        await ledger.append([b"published"], [publish(first_offset, number)])
    except ValueError:
        return False
    return True


async def only_the_end_of_an_append_is_compacted(under_test: LedgersUnderTest) -> None:
    """Checks that a compaction up to an invalid position is refused without effect."""
    async with opened_at(under_test) as opened:
        ledger = opened.ledger
        await ledger.append([b"a", b"b"], [])
        await ledger.append([b"c"], [])
        await _refuses(ledger, 0, 1, 4, -1)
        require(len(await read(ledger)) == 3, "change nothing by a compaction that it refuses")
        await ledger.compact(2, snapshot_of(b"ab"))
        await _refuses(ledger, 1, 4)
        require(await read(ledger) == [(2, b"ab"), (3, b"c")], "change nothing by a compaction that it refuses")


async def _refuses(ledger: Ledger, *positions: int) -> None:
    for position in positions:
        try:
            await ledger.compact(position, snapshot_of(b"never"))
        except ValueError:
            continue
        raise AssertionError(f"a ledger must: refuse to compact up to {position}, where no known append ended")


async def appends_go_on_while_it_compacts(under_test: LedgersUnderTest) -> None:
    """Checks that appends during a compaction are kept."""
    async with opened_at(under_test) as opened:
        ledger = opened.ledger
        mark = await _append(ledger, *range(5))
        snapshot = [b"state %d" % n * 100 for n in range(100)]
        compacting = asyncio.ensure_future(ledger.compact(mark.position, snapshot_of(*snapshot)))
        for number in range(20):
            await asyncio.wait([compacting], timeout=0)
            await _append(ledger, 100 + number)
        await compacting
        await _append(ledger, 200)
        later = [b"entry %d" % n for n in (*range(100, 120), 200)]
        await _replaced(ledger, mark, snapshot, later)
    async with opened_at(under_test) as opened:
        await _replaced(opened.ledger, mark, snapshot, later)


async def a_snapshot_may_be_made_while_appends_go_on(under_test: LedgersUnderTest) -> None:
    """Checks that a snapshot is consumed as it is produced, with appends between its entries."""
    async with opened_at(under_test) as opened:
        ledger = opened.ledger
        mark = await _append(ledger, *range(3))
        snapshot = [b"state %d" % number for number in range(10)]

        async def made() -> AsyncIterator[bytes]:
            for number, entry in enumerate(snapshot):
                await _append(ledger, 100 + number)
                yield entry

        await ledger.compact(mark.position, made())
        later = [b"entry %d" % number for number in range(100, 110)]
        await _replaced(ledger, mark, snapshot, later)
    async with opened_at(under_test) as opened:
        await _replaced(opened.ledger, mark, snapshot, later)


async def a_snapshot_that_fails_changes_nothing(under_test: LedgersUnderTest) -> None:
    """Checks that an error raised by the snapshot is passed on, and that nothing was changed."""
    async with opened_at(under_test) as opened:
        ledger = opened.ledger
        await _append(ledger, 0, 1)
        before = await read(ledger)

        async def broken() -> AsyncIterator[bytes]:
            yield b"state" * 1_000
            raise InterruptedError("made no further")

        try:
            await ledger.compact(2, broken())
        except InterruptedError:
            pass
        else:
            raise AssertionError("a ledger must: pass on the error of a snapshot that is still being made")
        require(await read(ledger) == before, "change nothing where a snapshot failed")
        await _append(ledger, 2)
        await ledger.compact(2, snapshot_of(b"whole"))
        require(await read(ledger) == [(2, b"whole"), (3, b"entry 2")], "compact after a snapshot that failed")


async def an_older_owner_compacts_nothing(under_test: LedgersUnderTest) -> None:
    """Checks that a fenced owner's compaction is refused."""
    async with AsyncExitStack() as stack:
        ledgers = await stack.enter_async_context(under_test.ledgers())
        older_owner = await stack.enter_async_context(AsyncExitStack())
        older = await older_owner.enter_async_context(ledgers.open(NAMESPACE))
        await older.ledger.append([b"by the older"], [])
        try:
            newer = await stack.enter_async_context(ledgers.open(NAMESPACE))
        except LedgerBusy:
            await older_owner.aclose()
            newer = await stack.enter_async_context(ledgers.open(NAMESPACE))
        await is_refused(older.ledger.compact(1, snapshot_of(b"by a zombie")))
        require(await read(newer.ledger) == [(1, b"by the older")], "replace nothing for a fenced owner")


_CHECKS = (
    compacted_entries_are_replaced,
    everything_can_be_compacted_again,
    a_compaction_is_durable,
    only_the_end_of_an_append_is_compacted,
    appends_go_on_while_it_compacts,
    a_snapshot_may_be_made_while_appends_go_on,
    a_snapshot_that_fails_changes_nothing,
    an_older_owner_compacts_nothing,
)
COMPACTION_CHECKS: Checks = {
    **dict.fromkeys(_CHECKS, frozenset({Ability.COMPACTION})),
    outputs_outlive_a_compaction: frozenset({Ability.COMPACTION, Ability.OUTPUTS}),
}
