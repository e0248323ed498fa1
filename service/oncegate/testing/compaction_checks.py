"""The part of the conformance suite about collecting: entries replaced by a state that means the same."""

import asyncio
from collections.abc import AsyncIterator, Sequence

from oncegate.ports import DropRanges, Ledger, Mark, Replayed, TrimRanges
from oncegate.testing.ledger_places import BIG, Place, chunk_of, opened_at, publish, range_of, read, require


async def _append(ledger: Ledger, *numbers: int) -> Mark:
    for number in numbers:
        await ledger.append([b"entry %d" % number], [])
    return ledger.mark


def _replaced(ledger: Ledger, mark: Mark, state: Sequence[bytes], later: Sequence[bytes]) -> None:
    """The ledger reads as the state, then the later entries."""
    replayed = list(ledger.replay(1))
    wanted = [Replayed(mark.position, body, mark) for body in state]
    require(replayed[: len(state)] == wanted, "replay the state at the collected position, with the mark of it")
    found = [(one.position, bytes(one.body)) for one in replayed[len(state) :]]
    require(
        found == [(mark.position + 1 + i, body) for i, body in enumerate(later)],
        "replay what was appended after the collected position as it was",
    )
    require(read(ledger, mark.position + 1) == found, "replay from the position after a collection without the state")


async def compacted_entries_are_replaced(place: Place) -> None:
    state = [b"state", b"", b"of several" * 1_000]
    async with opened_at(place) as opened:
        ledger = opened.ledger
        mark = await _append(ledger, 1, 2, 3)
        last = await _append(ledger, 4, 5)
        await ledger.compact(mark.position, state)
        require(ledger.mark == last, "keep its mark in a collection")
        _replaced(ledger, mark, state, [b"entry 4", b"entry 5"])
        after = await ledger.append([b"entry 6"], [])
        require(after.position == 6, "go on in the positions after a collection")
        require(next(iter(ledger.replay(6))).mark == after, "give the mark of each append after a collection")
    async with opened_at(place) as opened:
        require(opened.ledger.mark == after, "open with the mark it had, after a collection too")
        require(opened.compacted == mark.position, "tell up to where it was collected when it is opened")
        _replaced(opened.ledger, mark, state, [b"entry 4", b"entry 5", b"entry 6"])


async def everything_can_be_compacted_again(place: Place) -> None:
    async with opened_at(place) as opened:
        for life in range(3):
            mark = await _append(opened.ledger, 10 * life, 10 * life + 1)
            state = [b"life %d" % life] * life  # the first has no entries at all
            await opened.ledger.compact(mark.position, state)
            _replaced(opened.ledger, mark, state, [])
        await opened.ledger.compact(mark.position, [b"the same place again"])
        _replaced(opened.ledger, mark, [b"the same place again"], [])
    async with opened_at(place) as opened:
        require(opened.ledger.mark == mark, "open with its mark when nothing came after the collection")
        _replaced(opened.ledger, mark, [b"the same place again"], [])
        await opened.ledger.compact(mark.position, [])
    async with opened_at(place) as opened:
        require(opened.ledger.mark == mark, "open with its mark when no entry is left")
        require(read(opened.ledger) == [], "keep a state without entries")
        await opened.ledger.append([b"after"], [])
        require(read(opened.ledger) == [(mark.position + 1, b"after")], "go on after an empty state")


async def a_compaction_is_durable(place: Place) -> None:
    async with opened_at(place) as opened:
        mark = await _append(opened.ledger, 1, 2)
        await _append(opened.ledger, 3)
        await opened.ledger.compact(mark.position, [b"state"])
        place.crash()
    async with opened_at(place) as opened:
        _replaced(opened.ledger, mark, [b"state"], [b"entry 3"])
        second = await _append(opened.ledger, 4)
        await opened.ledger.compact(second.position, [b"state 2"])
        await _append(opened.ledger, 5)
        place.crash()
    async with opened_at(place) as opened:
        _replaced(opened.ledger, second, [b"state 2"], [b"entry 5"])


async def outputs_outlive_a_compaction(place: Place) -> None:
    ranges = [range_of(number, 10, f"s{number % 2}") for number in range(1, 6)]
    async with opened_at(place) as opened:
        ledger = opened.ledger
        await ledger.append([b"a"], ranges)
        await ledger.append([b"b"], [publish(0, 1, 2), DropRanges((ranges[2].range_id,)), publish(0, 4, topic="u")])
        mark = await ledger.append([b"c"], [TrimRanges("t", 0, 10), range_of(6, 0), publish(20, 6)])
        await ledger.compact(mark.position, [b"state"])
        require(await ledger.fetch("t", 0, 10, 99, BIG) == [chunk_of(10, ranges[1])], "serve rows across a collection")
        place.crash()
    async with opened_at(place) as opened:
        ledger = opened.ledger
        require(await ledger.fetch("t", 0, 10, 99, BIG) == [chunk_of(10, ranges[1])], "keep rows across a collection")
        require(await ledger.fetch("u", 0, 0, 99, BIG) == [chunk_of(0, ranges[3])], "keep topics across a collection")
        require(await _publishes(ledger, 20, 5), "keep ranges that wait across a collection")
        chunks = await ledger.fetch("t", 0, 20, 99, BIG)
        require(chunks == [chunk_of(20, ranges[4])], "keep the rows of ranges that wait across a collection")
        require(not await _publishes(ledger, 30, 3), "never publish a range that was dropped before a collection")


async def _publishes(ledger: Ledger, first_offset: int, number: int) -> bool:
    """Whether the ledger knows the range as one that waits."""
    try:
        await ledger.append([b"published"], [publish(first_offset, number)])
    except ValueError:
        return False
    return True


async def only_the_end_of_an_append_is_compacted(place: Place) -> None:
    async with opened_at(place) as opened:
        ledger = opened.ledger
        await ledger.append([b"a", b"b"], [])
        await ledger.append([b"c"], [])
        await _refuses(ledger, 0, 1, 4, -1)
        require(len(read(ledger)) == 3, "change nothing by a collection that it refuses")
        await ledger.compact(2, [b"ab"])
        await _refuses(ledger, 1, 4)
        require(read(ledger) == [(2, b"ab"), (3, b"c")], "change nothing by a collection that it refuses")


async def _refuses(ledger: Ledger, *positions: int) -> None:
    for position in positions:
        try:
            await ledger.compact(position, [b"never"])
        except ValueError:
            continue
        raise AssertionError(f"a ledger must: refuse to collect up to {position}, where no known append ended")


async def appends_go_on_while_it_compacts(place: Place) -> None:
    async with opened_at(place) as opened:
        ledger = opened.ledger
        mark = await _append(ledger, *range(5))
        compacting = asyncio.ensure_future(ledger.compact(mark.position, [b"state %d" % n * 100 for n in range(100)]))
        for number in range(20):
            await asyncio.wait([compacting], timeout=0)
            await _append(ledger, 100 + number)
        await compacting
        await _append(ledger, 200)
        state, later = [b"state %d" % n * 100 for n in range(100)], [b"entry %d" % n for n in (*range(100, 120), 200)]
        _replaced(ledger, mark, state, later)
    async with opened_at(place) as opened:
        _replaced(opened.ledger, mark, state, later)


async def a_state_may_come_while_appends_go_on(place: Place) -> None:
    async with opened_at(place) as opened:
        ledger = opened.ledger
        mark = await _append(ledger, *range(3))
        state = [b"state %d" % number for number in range(10)]

        async def made() -> AsyncIterator[bytes]:
            for number, entry in enumerate(state):
                await _append(ledger, 100 + number)
                yield entry

        await ledger.compact(mark.position, made())
        later = [b"entry %d" % number for number in range(100, 110)]
        _replaced(ledger, mark, state, later)
    async with opened_at(place) as opened:
        _replaced(opened.ledger, mark, state, later)


async def a_state_that_comes_to_no_end_changes_nothing(place: Place) -> None:
    async with opened_at(place) as opened:
        ledger = opened.ledger
        await _append(ledger, 0, 1)
        held = read(ledger)

        async def broken() -> AsyncIterator[bytes]:
            yield b"state" * 1_000
            raise InterruptedError("made no further")

        try:
            await ledger.compact(2, broken())
        except InterruptedError:
            pass
        else:
            raise AssertionError("a ledger must: pass on the error of a state that is still being made")
        require(read(ledger) == held, "change nothing where a state came to no end")
        await _append(ledger, 2)
        await ledger.compact(2, [b"whole"])
        require(read(ledger) == [(2, b"whole"), (3, b"entry 2")], "collect after a state that came to no end")


COMPACTION_CHECKS = (
    compacted_entries_are_replaced,
    everything_can_be_compacted_again,
    a_compaction_is_durable,
    outputs_outlive_a_compaction,
    only_the_end_of_an_append_is_compacted,
    appends_go_on_while_it_compacts,
    a_state_may_come_while_appends_go_on,
    a_state_that_comes_to_no_end_changes_nothing,
)
