"""The conformance suite: what every ledger must do, whatever it is made of.

    async def test_my_ledger_keeps_its_promises():
        await check_ledger(make_place)

`make_place` gives a new, empty `Place` at each call. A broken promise raises AssertionError, which names it.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Protocol

from oncegate.core.errors import LedgerBusy, LedgerDown, LedgerFenced, OffsetTrimmed
from oncegate.ports import (
    Chunk,
    DropRanges,
    Ledger,
    Ledgers,
    Mark,
    OpenLedger,
    OutputChange,
    PublishRanges,
    Replayed,
    TrimRanges,
    WriteRange,
)


class Place(Protocol):
    """Where the ledgers under test live. It survives those who open it."""

    def ledgers(self) -> AbstractAsyncContextManager[Ledgers]:
        """What a process that starts now finds; the namespace `default` exists."""

    def crash(self) -> None:
        """The power fails: whoever has it open is gone, and only what is durable at this moment stays."""


MakePlace = Callable[[], AbstractAsyncContextManager[Place]]
NAMESPACE = "default"
BIG = 1 << 40  # more bytes than any check writes


def require(holds: bool, promise: str) -> None:
    """AssertionError, also under `python -O`."""
    if not holds:
        raise AssertionError(f"a ledger must: {promise}")


@asynccontextmanager
async def _opened(place: Place) -> AsyncIterator[OpenLedger]:
    async with place.ledgers() as ledgers, ledgers.open(NAMESPACE) as opened:
        yield opened


def _range(name: int, rows: int, stream: str = "s") -> WriteRange:
    return WriteRange(name.to_bytes(16, "big"), stream, rows, b"rows of %d " % name * 50)


def _publish(first_offset: int, *names: int, topic: str = "t") -> PublishRanges:
    return PublishRanges(topic, 0, first_offset, tuple(name.to_bytes(16, "big") for name in names))


def _chunk(first_offset: int, written: WriteRange) -> Chunk:
    return Chunk(first_offset, written.rows, written.data)


def _read(ledger: Ledger, from_position: int = 1) -> list[tuple[int, bytes]]:
    return [(replayed.position, bytes(replayed.body)) for replayed in ledger.replay(from_position)]


async def entries_come_back_in_order(place: Place) -> None:
    async with _opened(place) as opened:
        ledger = opened.ledger
        require(ledger.mark.position == 0 and _read(ledger) == [], "be empty when it is new")
        first = await ledger.append([b"a", b"b"], [])
        second = await ledger.append([b"c"], [])
        require((first.position, second.position) == (2, 3), "give consecutive positions from 1")
        require(ledger.mark == second, "show the last durable mark")
        wanted = [(1, b"a"), (2, b"b"), (3, b"c")]
        require(_read(ledger) == wanted, "give entries back in the order of their positions")
        require(_read(ledger, 2) == wanted[1:] and _read(ledger, 4) == [], "replay from any position")
        marks = [replayed.mark for replayed in ledger.replay(1)]
        require(marks == [first, first, second], "give each entry the mark of its append")


async def marks_tell_histories_apart(place: Place) -> None:
    async with _opened(place) as opened:
        marks = [opened.ledger.mark] + [await opened.ledger.append([b"same"], []) for _ in range(5)]
        require(len({mark.chain for mark in marks}) == len(marks), "give every mark a chain of its own")
        require(all(len(mark.chain) == 8 and len(mark.ledger) == 16 for mark in marks), "make marks of 16 and 8 bytes")
        require(len({mark.ledger for mark in marks}) == 1, "keep its id")


async def opening_again_gives_the_same(place: Place) -> None:
    written = [_range(1, 3), _range(2, 4)]
    async with _opened(place) as opened:
        for number in range(20):
            await opened.ledger.append([b"entry %d" % number] * (number % 3), [])
        mark = await opened.ledger.append([b"last"], [*written, _publish(0, 1)])
        before, key, epoch = list(opened.ledger.replay(1)), opened.key, opened.epoch
    async with _opened(place) as again:
        require(list(again.ledger.replay(1)) == before, "give the same entries and marks when opened again")
        require(again.ledger.mark == mark, "open with the mark it had")
        require(again.key == key and len(key) == 32, "keep its key")
        require(again.epoch > epoch, "open with a higher epoch each time")
        chunks = await again.ledger.fetch("t", 0, 0, 100, BIG)
        require(chunks == [_chunk(0, written[0])], "keep what was published, and only that")
        await again.ledger.append([], [_publish(3, 2)])
        require(len(await again.ledger.fetch("t", 0, 0, 100, BIG)) == 2, "keep ranges that wait to be published")


async def nothing_is_answered_before_it_is_durable(place: Place) -> None:
    wanted: list[tuple[int, bytes]] = []
    for life in range(4):
        async with AsyncExitStack() as crashed:
            opened = await crashed.enter_async_context(_opened(place))
            require(_read(opened.ledger) == wanted, "hold every acknowledged entry after a crash, and no other")
            for number in range(3):
                body = b"%d %d" % (life, number)
                name = life * 3 + number
                changes: list[OutputChange] = [_range(name, 1, f"s{number % 2}"), _publish(name, name)]
                mark = await opened.ledger.append([body], changes)
                wanted.append((mark.position, body))
            place.crash()
    async with _opened(place) as opened:
        require(_read(opened.ledger) == wanted, "hold every acknowledged entry after a crash, and no other")
        chunks = await opened.ledger.fetch("t", 0, 0, 1_000, BIG)
        require([chunk.first_offset for chunk in chunks] == list(range(12)), "hold acknowledged outputs after a crash")


async def an_older_owner_is_fenced(place: Place) -> None:
    async with AsyncExitStack() as stack:
        ledgers = await stack.enter_async_context(place.ledgers())
        older_owner = await stack.enter_async_context(AsyncExitStack())
        older = await older_owner.enter_async_context(ledgers.open(NAMESPACE))
        await older.ledger.append([b"by the older"], [])
        try:
            newer = await stack.enter_async_context(ledgers.open(NAMESPACE))
        except LedgerBusy:
            await older.ledger.append([b"still the owner"], [])
            await older_owner.aclose()
            newer = await stack.enter_async_context(ledgers.open(NAMESPACE))
        require(newer.epoch > older.epoch, "give the newer owner a higher epoch")
        before = _read(newer.ledger)
        await _is_refused(older.ledger.append([b"by a zombie"], [_range(1, 1), _publish(0, 1)]))
        await _is_refused(older.ledger.append([], [TrimRanges("t", 0, 1)]))
        await newer.ledger.append([b"by the newer"], [])
        wanted = [*before, (len(before) + 1, b"by the newer")]
        require(_read(newer.ledger) == wanted, "hold nothing that a fenced owner tried to write")
        require(await newer.ledger.fetch("t", 0, 0, 10, BIG) == [], "publish nothing for a fenced owner")


async def _is_refused(call: Awaitable[object]) -> None:
    try:
        await call
    except (LedgerFenced, LedgerDown):
        return
    raise AssertionError("a ledger must: refuse an owner of an older epoch")


async def outputs_are_read_by_offset(place: Place) -> None:
    sizes = [3, 1, 5, 2]
    ranges = [_range(number, rows, f"s{number % 2}") for number, rows in enumerate(sizes, 1)]
    async with _opened(place) as opened:
        ledger = opened.ledger
        await ledger.append([b"staged"], ranges)
        require(await ledger.fetch("t", 0, 0, 100, BIG) == [], "serve no rows before they are published")
        await ledger.append([b"committed"], [_publish(0, 3, 1), _publish(8, 4)])
        whole = [_chunk(0, ranges[2]), _chunk(5, ranges[0]), _chunk(8, ranges[3])]
        cases = {(0, 100): whole, (0, 5): whole[:1], (0, 6): whole[:2], (4, 1): whole[:1], (5, 1): whole[1:2]}
        cases |= {(7, 2): whole[1:], (9, 100): whole[2:], (10, 100): [], (99, 1): [], (0, 0): []}
        for (offset, max_rows), chunks in cases.items():
            require(
                await ledger.fetch("t", 0, offset, max_rows, BIG) == chunks,
                f"fetch({offset}, {max_rows}) the published ranges that cover those rows, whole and in order",
            )
        require(await ledger.fetch("other", 0, 0, 10, BIG) == [], "know no rows of a topic without any")
        await ledger.append([], [_publish(0, 2, topic="other")])
        require(await ledger.fetch("other", 0, 0, 10, BIG) == [_chunk(0, ranges[1])], "keep topics apart")


async def one_append_writes_and_publishes(place: Place) -> None:
    written = _range(1, 7)
    async with _opened(place) as opened:
        await opened.ledger.append([b"produced"], [written, _publish(0, 1)])
        require(await opened.ledger.fetch("t", 0, 3, 1, BIG) == [_chunk(0, written)], "write and publish in one append")
        await opened.ledger.append([b"empty"], [_range(2, 0), _publish(7, 2), _range(3, 2), _publish(7, 3)])
        chunks = await opened.ledger.fetch("t", 0, 0, 100, BIG)
        require([chunk.first_offset for chunk in chunks] == [0, 7], "give a range without rows no offset")


async def contradictions_are_refused_whole(place: Place) -> None:
    """An append whose changes cannot hold is a bug of the caller: ValueError, and not even its entries are there."""
    async with _opened(place) as opened:
        ledger = opened.ledger
        await ledger.append([b"a"], [_range(1, 2), _range(2, 2)])
        await ledger.append([b"b"], [_publish(0, 1), DropRanges((_range(2, 2).range_id,))])
        wrong: list[Sequence[OutputChange]] = [
            [_publish(2, 9)],
            [_publish(2, 2)],
            [_range(3, 1), _publish(3, 3)],
            [DropRanges((_range(1, 2).range_id,))],
            [_range(4, 1), _range(4, 1)],
            [_range(5, 1), _publish(2, 5), _publish(3, 5)],
        ]
        for changes in wrong:
            try:
                await ledger.append([b"never"], changes)
            except ValueError:
                continue
            raise AssertionError(f"a ledger must: refuse {changes} after ranges 1 and 2 are gone")
        require(ledger.mark.position == 2 and len(_read(ledger)) == 2, "write nothing of a refused append")
        require(len(await ledger.fetch("t", 0, 0, 100, BIG)) == 1, "publish nothing of a refused append")
        await ledger.append([b"c"], [_range(3, 1), _range(4, 1), _publish(2, 3, 4)])


async def dropped_ranges_are_gone(place: Place) -> None:
    async with _opened(place) as opened:
        await opened.ledger.append([b"a"], [_range(1, 1), _range(2, 1), _range(3, 1, "other")])
        await opened.ledger.append([b"b"], [DropRanges((_range(1, 1).range_id, _range(3, 1).range_id))])
        await opened.ledger.append([b"c"], [_publish(0, 2)])
    async with _opened(place) as opened:
        chunks = await opened.ledger.fetch("t", 0, 0, 10, BIG)
        require(chunks == [_chunk(0, _range(2, 1))], "keep the neighbours of a dropped range")
        try:
            await opened.ledger.append([], [_publish(1, 1)])
        except ValueError:
            return
        raise AssertionError("a ledger must: never publish a dropped range")


async def _low(ledger: Ledger) -> int:
    """The lowest offset of topic `t` that can be read; it has one."""
    try:
        return (await ledger.fetch("t", 0, 0, 1, BIG))[0].first_offset
    except OffsetTrimmed as error:
        low = error.extra["low_offset"]
        assert isinstance(low, int)
        return low


async def trimmed_offsets_are_refused(place: Place) -> None:
    ranges = [_range(number, 10) for number in range(1, 4)]
    async with _opened(place) as opened:
        ledger = opened.ledger
        await ledger.append([b"a"], [*ranges, _publish(0, 1, 2, 3)])
        for before, low in [(0, 0), (9, 0), (10, 10), (19, 10), (15, 10)]:
            await ledger.append([], [TrimRanges("t", 0, before)])
            require(await _low(ledger) == low, f"trim before {before}, by whole ranges, to {low}")
        await ledger.append([], [TrimRanges("none", 0, 5)])
        require(await ledger.fetch("none", 0, 0, 1, BIG) == [], "find nothing to trim in a topic without rows")
        mark = ledger.mark
    async with _opened(place) as opened:
        require(opened.ledger.mark == mark, "open with the mark it had, after a trim too")
        require(await opened.ledger.fetch("t", 0, 10, 1, BIG) == [_chunk(10, ranges[1])], "keep what was not trimmed")
        try:
            await opened.ledger.fetch("t", 0, 9, 1, BIG)
        except OffsetTrimmed as error:
            require(error.extra.get("low_offset") == 10 and "10" in error.detail, "name the lowest offset kept")
        else:
            raise AssertionError("a ledger must: answer a trimmed offset with OffsetTrimmed")
        await opened.ledger.append([], [TrimRanges("t", 0, 99)])
        await opened.ledger.append([], [_range(9, 1), _publish(30, 9)])
        require(await _low(opened.ledger) == 30, "trim no further than the end")
        require(len(await opened.ledger.fetch("t", 0, 30, 1, BIG)) == 1, "go on where the trimmed topic ended")


async def empty_appends_change_nothing(place: Place) -> None:
    async with _opened(place) as opened:
        new = opened.ledger.mark
        require(await opened.ledger.append([], []) == new, "answer an empty append with the mark there is")
        mark = await opened.ledger.append([b"", b""], [])
        require(mark.position == 2 and _read(opened.ledger) == [(1, b""), (2, b"")], "keep entries without bytes")
        only_outputs = await opened.ledger.append([], [_range(1, 1), _publish(0, 1)])
        require(only_outputs == mark == opened.ledger.mark, "keep its mark when an append has no entries")
    async with _opened(place) as opened:
        require(opened.ledger.mark == mark and len(_read(opened.ledger)) == 2, "open the same after empty appends")
        require(len(await opened.ledger.fetch("t", 0, 0, 1, BIG)) == 1, "keep outputs appended without entries")


async def sizes_do_not_matter(place: Place) -> None:
    sizes = [0, 1, 4_000, 4_096, 4_097, 70_000, 3_000_000, 5]
    bodies = [bytes([number]) * size for number, size in enumerate(sizes, 1)]
    big = WriteRange(bytes(16), "big", 1, b"\0\xff" * 2_000_000)
    async with _opened(place) as opened:
        for body in bodies:
            await opened.ledger.append([body], [])
        await opened.ledger.append(bodies, [big, _publish(0, 0)])
    async with _opened(place) as opened:
        require([body for _, body in _read(opened.ledger)] == bodies * 2, "keep entries of every size")
        require((await opened.ledger.fetch("t", 0, 0, 1, BIG))[0].data == big.data, "keep outputs of every size")


async def a_cancelled_caller_corrupts_nothing(place: Place) -> None:
    """Whether the append of a cancelled caller took place is unknown to that caller; it did or it did not, whole."""
    async with _opened(place) as opened:
        for number in range(1, 9):
            body = b"cancelled %d" % number
            changes: list[OutputChange] = [_range(number, 1)]
            call = asyncio.ensure_future(opened.ledger.append([body, body], changes))
            for _ in range(number % 4):
                await asyncio.wait([call], timeout=0)
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
            await opened.ledger.append([b"next"], [])
        seen, mark = list(opened.ledger.replay(1)), opened.ledger.mark
    _require_whole_pairs(seen, mark)
    async with _opened(place) as opened:
        require(list(opened.ledger.replay(1)) == seen, "open with what it held, after cancelled appends too")


def _require_whole_pairs(seen: list[Replayed], mark: Mark) -> None:
    require([replayed.position for replayed in seen] == list(range(1, len(seen) + 1)), "leave no hole in the positions")
    require(mark.position == len(seen) and seen[-1].mark == mark, "show the last durable mark after a cancelled append")
    bodies = [replayed.body for replayed in seen]
    require(bodies.count(b"next") == 8, "go on after a cancelled append")
    require(all(bodies.count(body) in (2, 8) for body in set(bodies)), "keep an append whole or not at all")


async def readers_never_meet_the_writer(place: Place) -> None:
    async with _opened(place) as opened:
        ledger = opened.ledger

        async def read() -> None:
            offset = 0
            while offset < 30:
                for chunk in await ledger.fetch("t", 0, offset, 10, BIG):
                    require(chunk.data == _range(chunk.first_offset + 1, 1).data, "serve each row under its own offset")
                    offset = chunk.first_offset + chunk.rows
                await asyncio.wait([writing], timeout=0.001)

        async def write() -> None:
            for number in range(30):
                await ledger.append([b"x"], [_range(number + 1, 1), _publish(number, number + 1)])

        writing = asyncio.ensure_future(write())
        await asyncio.wait_for(asyncio.gather(writing, read(), read()), timeout=60)


async def namespaces_are_apart(place: Place) -> None:
    async with place.ledgers() as ledgers:
        await ledgers.create("other")
        await ledgers.create("other")
        require(ledgers.names() == sorted(["other", NAMESPACE]), "list the namespaces, sorted")
        async with ledgers.open(NAMESPACE) as first, ledgers.open("other") as second:
            await first.ledger.append([b"mine"], [_range(1, 1), _publish(0, 1)])
            require(first.key != second.key, "give each namespace a key of its own")
            require(first.ledger.mark.ledger != second.ledger.mark.ledger, "give each ledger an id of its own")
            require(_read(second.ledger) == [], "keep namespaces apart")
            require(await second.ledger.fetch("t", 0, 0, 1, BIG) == [], "keep the topics of namespaces apart")
        free, total = ledgers.free_bytes()
        require(0 <= free <= total and total > 0, "tell how much room there is")


CHECKS = (
    entries_come_back_in_order,
    marks_tell_histories_apart,
    opening_again_gives_the_same,
    nothing_is_answered_before_it_is_durable,
    an_older_owner_is_fenced,
    outputs_are_read_by_offset,
    one_append_writes_and_publishes,
    contradictions_are_refused_whole,
    dropped_ranges_are_gone,
    trimmed_offsets_are_refused,
    empty_appends_change_nothing,
    sizes_do_not_matter,
    a_cancelled_caller_corrupts_nothing,
    readers_never_meet_the_writer,
    namespaces_are_apart,
)


async def check_ledger(make_place: MakePlace) -> None:
    """Run every check, each at a new place; AssertionError at the first promise that is broken."""
    for check in CHECKS:
        async with make_place() as place:
            await check(place)
