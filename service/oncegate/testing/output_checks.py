"""Checks outputs: ranges, topics, trims and bounded reads. Part of the conformance suite."""

from collections.abc import Sequence

from oncegate.core.errors import OffsetTrimmed
from oncegate.ports import Ability, DropRanges, OutputChange, Outputs, TrimRanges
from oncegate.testing.ledger_places import (
    BIG,
    Checks,
    LedgersUnderTest,
    chunk_of,
    opened_at,
    outputs_of,
    publish,
    range_of,
    read,
    require,
)


async def outputs_are_read_by_offset(under_test: LedgersUnderTest) -> None:
    """Checks that a fetch at any offset of a published range returns the range."""
    sizes = [3, 1, 5, 2]
    ranges = [range_of(number, rows, f"s{number % 2}") for number, rows in enumerate(sizes, 1)]
    async with opened_at(under_test) as opened:
        ledger, outputs = opened.ledger, outputs_of(opened)
        await ledger.append([b"staged"], ranges)
        require(await outputs.fetch("t", 0, 0, 100, BIG) == [], "serve no rows before they are published")
        await ledger.append([b"committed"], [publish(0, 3, 1), publish(8, 4)])
        whole = [chunk_of(0, ranges[2]), chunk_of(5, ranges[0]), chunk_of(8, ranges[3])]
        cases = {(0, 100): whole, (0, 5): whole[:1], (0, 6): whole[:2], (4, 1): whole[:1], (5, 1): whole[1:2]}
        cases |= {(7, 2): whole[1:], (9, 100): whole[2:], (10, 100): [], (99, 1): [], (0, 0): []}
        for (offset, max_rows), chunks in cases.items():
            require(
                await outputs.fetch("t", 0, offset, max_rows, BIG) == chunks,
                f"fetch({offset}, {max_rows}) the published ranges that cover those rows, whole and in order",
            )
        require(await outputs.fetch("other", 0, 0, 10, BIG) == [], "know no rows of a topic without any")
        await ledger.append([], [publish(0, 2, topic="other")])
        require(await outputs.fetch("other", 0, 0, 10, BIG) == [chunk_of(0, ranges[1])], "keep topics apart")


async def one_append_writes_and_publishes(under_test: LedgersUnderTest) -> None:
    """Checks that a range may be written and published in one append."""
    written = range_of(1, 7)
    async with opened_at(under_test) as opened:
        await opened.ledger.append([b"produced"], [written, publish(0, 1)])
        require(
            await outputs_of(opened).fetch("t", 0, 3, 1, BIG) == [chunk_of(0, written)],
            "write and publish in one append",
        )
        await opened.ledger.append([b"empty"], [range_of(2, 0), publish(7, 2), range_of(3, 2), publish(7, 3)])
        chunks = await outputs_of(opened).fetch("t", 0, 0, 100, BIG)
        require([chunk.first_offset for chunk in chunks] == [0, 7], "give a range without rows no offset")


async def contradictions_are_refused_whole(under_test: LedgersUnderTest) -> None:
    """Checks that an append with contradictory changes raises ValueError and that not even its entries are written."""
    async with opened_at(under_test) as opened:
        ledger, outputs = opened.ledger, outputs_of(opened)
        await ledger.append([b"a"], [range_of(1, 2), range_of(2, 2)])
        await ledger.append([b"b"], [publish(0, 1), DropRanges((range_of(2, 2).range_id,))])
        wrong: list[Sequence[OutputChange]] = [
            [publish(2, 9)],
            [publish(2, 2)],
            [range_of(3, 1), publish(3, 3)],
            [DropRanges((range_of(1, 2).range_id,))],
            [range_of(4, 1), range_of(4, 1)],
            [range_of(5, 1), publish(2, 5), publish(3, 5)],
        ]
        for changes in wrong:
            try:
                await ledger.append([b"never"], changes)
            except ValueError:
                continue
            raise AssertionError(f"a ledger must: refuse {changes} after ranges 1 and 2 are gone")
        require(ledger.mark.position == 2 and len(await read(ledger)) == 2, "write nothing of a refused append")
        require(len(await outputs.fetch("t", 0, 0, 100, BIG)) == 1, "publish nothing of a refused append")
        await ledger.append([b"c"], [range_of(3, 1), range_of(4, 1), publish(2, 3, 4)])


async def dropped_ranges_are_gone(under_test: LedgersUnderTest) -> None:
    """Checks that a dropped range is never published."""
    async with opened_at(under_test) as opened:
        await opened.ledger.append([b"a"], [range_of(1, 1), range_of(2, 1), range_of(3, 1, "other")])
        await opened.ledger.append([b"b"], [DropRanges((range_of(1, 1).range_id, range_of(3, 1).range_id))])
        await opened.ledger.append([b"c"], [publish(0, 2)])
    async with opened_at(under_test) as opened:
        chunks = await outputs_of(opened).fetch("t", 0, 0, 10, BIG)
        require(chunks == [chunk_of(0, range_of(2, 1))], "keep the neighbours of a dropped range")
        try:
            await opened.ledger.append([], [publish(1, 1)])
        except ValueError:
            return
        raise AssertionError("a ledger must: never publish a dropped range")


async def _low(outputs: Outputs) -> int:
    """Returns the lowest readable offset of topic `t`, which has rows."""
    try:
        return (await outputs.fetch("t", 0, 0, 1, BIG))[0].first_offset
    except OffsetTrimmed as error:
        low = error.extra["low_offset"]
        assert isinstance(low, int)
        return low


async def trimmed_offsets_are_refused(under_test: LedgersUnderTest) -> None:
    """Checks that trims remove whole ranges and are durable."""
    ranges = [range_of(number, 10) for number in range(1, 4)]
    async with opened_at(under_test) as opened:
        ledger, outputs = opened.ledger, outputs_of(opened)
        await ledger.append([b"a"], [*ranges, publish(0, 1, 2, 3)])
        for before, low in [(0, 0), (9, 0), (10, 10), (19, 10), (15, 10)]:
            await ledger.append([], [TrimRanges("t", 0, before)])
            require(await _low(outputs) == low, f"trim before {before}, by whole ranges, to {low}")
        await ledger.append([], [TrimRanges("none", 0, 5)])
        require(await outputs.fetch("none", 0, 0, 1, BIG) == [], "find nothing to trim in a topic without rows")
        mark = ledger.mark
    async with opened_at(under_test) as opened:
        require(opened.ledger.mark == mark, "open with the mark it had, after a trim too")
        require(
            await outputs_of(opened).fetch("t", 0, 10, 1, BIG) == [chunk_of(10, ranges[1])], "keep what was not trimmed"
        )
        try:
            await outputs_of(opened).fetch("t", 0, 9, 1, BIG)
        except OffsetTrimmed as error:
            require(error.extra.get("low_offset") == 10 and "10" in error.detail, "name the lowest offset kept")
        else:
            raise AssertionError("a ledger must: answer a trimmed offset with OffsetTrimmed")
        await opened.ledger.append([], [TrimRanges("t", 0, 99)])
        await opened.ledger.append([], [range_of(9, 1), publish(30, 9)])
        require(await _low(outputs_of(opened)) == 30, "trim no further than the end")
        require(len(await outputs_of(opened).fetch("t", 0, 30, 1, BIG)) == 1, "go on where the trimmed topic ended")


async def a_trim_is_part_of_its_append(under_test: LedgersUnderTest) -> None:
    """Checks that a trim takes effect with its append, or not at all."""
    ranges = [range_of(number, 10) for number in range(1, 5)]
    async with opened_at(under_test) as opened:
        ledger, outputs = opened.ledger, outputs_of(opened)
        await ledger.append([b"a"], [ranges[0], ranges[1], publish(0, 1, 2)])
        await ledger.append([b"b"], [ranges[2], publish(20, 3), TrimRanges("t", 0, 10)])
        require(await _low(outputs) == 10, "trim and publish in one append")
        try:
            await ledger.append([b"never"], [TrimRanges("t", 0, 30), publish(30, 9)])
        except ValueError:
            require(await _low(outputs) == 10, "trim nothing by an append that it refuses")
        else:
            raise AssertionError("a ledger must: refuse to publish what was never written")
        await ledger.append([b"c"], [TrimRanges("t", 0, 25)])
        under_test.crash()
    async with opened_at(under_test) as opened:
        require(await _low(outputs_of(opened)) == 20, "keep an acknowledged trim after a crash")
        chunks = await outputs_of(opened).fetch("t", 0, 20, 100, BIG)
        require(chunks == [chunk_of(20, ranges[2])], "keep what was not trimmed after a crash")


async def fetches_are_bounded_in_bytes(under_test: LedgersUnderTest) -> None:
    """Checks that a fetch stops after the range that reaches its limit in bytes."""
    ranges = [range_of(number, 2) for number in range(1, 5)]
    size_bytes = len(ranges[0].data)
    async with opened_at(under_test) as opened:
        await opened.ledger.append([b"a"], [*ranges, publish(0, 1, 2, 3, 4)])
        whole = [chunk_of(2 * number, written) for number, written in enumerate(ranges)]
        cases = {0: 1, 1: 1, size_bytes: 1, size_bytes + 1: 2, 2 * size_bytes: 2, 3 * size_bytes - 1: 3, BIG: 4}
        for max_bytes, count in cases.items():
            require(
                await outputs_of(opened).fetch("t", 0, 0, 100, max_bytes) == whole[:count],
                f"stop after the range that reaches {max_bytes} bytes: {count} of {size_bytes} bytes each",
            )
        require(await outputs_of(opened).fetch("t", 0, 5, 100, 1) == whole[2:3], "bound from the offset asked for on")
        require(await outputs_of(opened).fetch("t", 0, 0, 3, BIG) == whole[:2], "bound rows too")


_CHECKS = (
    outputs_are_read_by_offset,
    one_append_writes_and_publishes,
    contradictions_are_refused_whole,
    dropped_ranges_are_gone,
    trimmed_offsets_are_refused,
    a_trim_is_part_of_its_append,
    fetches_are_bounded_in_bytes,
)
OUTPUT_CHECKS: Checks = dict.fromkeys(_CHECKS, frozenset({Ability.OUTPUTS}))
