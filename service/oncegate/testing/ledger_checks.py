"""The conformance suite: checks that every kind of ledger must pass.

    async def test_my_ledger_keeps_its_promises():
        await check_ledger(make_place)

`make_place` returns a new, empty `LedgersUnderTest` at each call. A broken promise raises AssertionError, which names
it. For a ledger that leaves abilities out, `check_ledger(make_place, {Ability.OUTPUTS})` returns the skipped checks.
"""

import asyncio
from collections.abc import Collection
from contextlib import AsyncExitStack, aclosing
from functools import partial

from oncegate.core.errors import LedgerBusy, LedgerFenced, NotFound
from oncegate.ports import Ability, Ledgers, Mark, Replayed, TrimRanges, WriteRange
from oncegate.testing.compaction_checks import COMPACTION_CHECKS
from oncegate.testing.ledger_places import (
    BIG,
    NAMESPACE,
    Checks,
    LedgerCheck,
    LedgersUnderTest,
    MakePlace,
    chunk_of,
    is_refused,
    opened_at,
    outputs_of,
    publish,
    range_of,
    read,
    replayed,
    require,
    rows,
)
from oncegate.testing.output_checks import OUTPUT_CHECKS
from oncegate.testing.runs_checks import RUNS_CHECKS


async def entries_come_back_in_order(under_test: LedgersUnderTest) -> None:
    """Checks positions, ledger positions (marks) and replay of a few appends."""
    async with opened_at(under_test) as opened:
        ledger = opened.ledger
        require(ledger.mark.position == 0 and await read(ledger) == [], "be empty when it is new")
        first = await ledger.append([b"a", b"b"], [])
        second = await ledger.append([b"c"], [])
        require((first.position, second.position) == (2, 3), "give consecutive positions from 1")
        require(ledger.mark == second, "show the last durable mark")
        wanted = [(1, b"a"), (2, b"b"), (3, b"c")]
        require(await read(ledger) == wanted, "give entries back in the order of their positions")
        require(await read(ledger, 2) == wanted[1:] and await read(ledger, 4) == [], "replay from any position")
        marks = [entry.mark for entry in await replayed(ledger)]
        require(marks == [first, first, second], "give each entry the mark of its append")


async def marks_tell_histories_apart(under_test: LedgersUnderTest) -> None:
    """Checks that each append has its own hash chain, even if the entries are equal."""
    async with opened_at(under_test) as opened:
        marks = [opened.ledger.mark] + [await opened.ledger.append([b"same"], []) for _ in range(5)]
        require(len({mark.chain for mark in marks}) == len(marks), "give every mark a chain of its own")
        require(all(len(mark.chain) == 8 and len(mark.ledger) == 16 for mark in marks), "make marks of 16 and 8 bytes")
        require(len({mark.ledger for mark in marks}) == 1, "keep its id")


async def opening_again_gives_the_same(under_test: LedgersUnderTest) -> None:
    """Checks that a ledger reopened under a higher epoch returns everything that was written."""
    written = [range_of(1, 3), range_of(2, 4)]
    async with opened_at(under_test) as opened:
        for number in range(20):
            await opened.ledger.append([b"entry %d" % number] * (number % 3), [])
        mark = await opened.ledger.append([b"last"], rows(opened, *written, publish(0, 1)))
        before, key, epoch = await replayed(opened.ledger), opened.key, opened.history.epoch
    async with opened_at(under_test) as again:
        require(await replayed(again.ledger) == before, "give the same entries and marks when opened again")
        require(again.ledger.mark == mark, "open with the mark it had")
        require(again.key == key and len(key) == 32, "keep its key")
        require(again.history.epoch > epoch, "open with a higher epoch each time")
        if again.outputs is not None:
            chunks = await again.outputs.fetch("t", 0, 0, 100, BIG)
            require(chunks == [chunk_of(0, written[0])], "keep what was published, and only that")
            await again.ledger.append([], [publish(3, 2)])
            require(len(await again.outputs.fetch("t", 0, 0, 100, BIG)) == 2, "keep ranges that wait to be published")


async def nothing_is_answered_before_it_is_durable(under_test: LedgersUnderTest) -> None:
    """Checks that exactly the acknowledged appends survive crashes."""
    wanted: list[tuple[int, bytes]] = []
    for life in range(4):
        async with AsyncExitStack() as crashed:
            opened = await crashed.enter_async_context(opened_at(under_test))
            require(await read(opened.ledger) == wanted, "hold every acknowledged entry after a crash, and no other")
            for number in range(3):
                body = b"%d %d" % (life, number)
                name = life * 3 + number
                changes = rows(opened, range_of(name, 1, f"s{number % 2}"), publish(name, name))
                mark = await opened.ledger.append([body], changes)
                wanted.append((mark.position, body))
            under_test.crash()
    async with opened_at(under_test) as opened:
        require(await read(opened.ledger) == wanted, "hold every acknowledged entry after a crash, and no other")
        if opened.outputs is not None:
            offsets = [chunk.first_offset for chunk in await opened.outputs.fetch("t", 0, 0, 1_000, BIG)]
            require(offsets == list(range(12)), "hold acknowledged outputs after a crash")


async def an_older_owner_is_fenced(under_test: LedgersUnderTest) -> None:
    """Checks that a superseded owner writes nothing."""
    async with AsyncExitStack() as stack:
        ledgers = await stack.enter_async_context(under_test.ledgers())
        older_owner = await stack.enter_async_context(AsyncExitStack())
        older = await older_owner.enter_async_context(ledgers.open(NAMESPACE))
        await older.ledger.append([b"by the older"], [])
        try:
            newer = await stack.enter_async_context(ledgers.open(NAMESPACE))
        except LedgerBusy:
            await older.ledger.append([b"still the owner"], [])
            await older_owner.aclose()
            newer = await stack.enter_async_context(ledgers.open(NAMESPACE))
        require(newer.history.epoch > older.history.epoch, "give the newer owner a higher epoch")
        before = await read(newer.ledger)
        await is_refused(older.ledger.append([b"by a zombie"], rows(older, range_of(1, 1), publish(0, 1))))
        if older.outputs is not None:
            await is_refused(older.ledger.append([], [TrimRanges("t", 0, 1)]))
        await newer.ledger.append([b"by the newer"], [])
        wanted = [*before, (len(before) + 1, b"by the newer")]
        require(await read(newer.ledger) == wanted, "hold nothing that a fenced owner tried to write")
        if newer.outputs is not None:
            require(await newer.outputs.fetch("t", 0, 0, 10, BIG) == [], "publish nothing for a fenced owner")


async def empty_appends_change_nothing(under_test: LedgersUnderTest) -> None:
    """Checks appends without entries, and entries without bytes."""
    async with opened_at(under_test) as opened:
        new = opened.ledger.mark
        require(await opened.ledger.append([], []) == new, "answer an empty append with the mark there is")
        mark = await opened.ledger.append([b"", b""], [])
        require(mark.position == 2 and await read(opened.ledger) == [(1, b""), (2, b"")], "keep entries without bytes")
        only_outputs = await opened.ledger.append([], rows(opened, range_of(1, 1), publish(0, 1)))
        require(only_outputs == mark == opened.ledger.mark, "keep its mark when an append has no entries")
    async with opened_at(under_test) as opened:
        require(opened.ledger.mark == mark and len(await read(opened.ledger)) == 2, "open the same after empty appends")
        if opened.outputs is not None:
            require(len(await opened.outputs.fetch("t", 0, 0, 1, BIG)) == 1, "keep outputs appended without entries")


async def sizes_do_not_matter(under_test: LedgersUnderTest) -> None:
    """Checks entries and outputs of sizes from zero bytes to megabytes."""
    sizes = [0, 1, 4_000, 4_096, 4_097, 70_000, 3_000_000, 5]
    bodies = [bytes([number]) * size for number, size in enumerate(sizes, 1)]
    big = WriteRange(bytes(16), "big", 1, b"\0\xff" * 2_000_000)
    async with opened_at(under_test) as opened:
        for body in bodies:
            await opened.ledger.append([body], [])
        await opened.ledger.append(bodies, rows(opened, big, publish(0, 0)))
    async with opened_at(under_test) as opened:
        require([body for _, body in await read(opened.ledger)] == bodies * 2, "keep entries of every size")
        if opened.outputs is not None:
            require((await opened.outputs.fetch("t", 0, 0, 1, BIG))[0].data == big.data, "keep outputs of every size")


async def a_cancelled_caller_corrupts_nothing(under_test: LedgersUnderTest) -> None:
    """Checks that the append of a cancelled caller, whose outcome is unknown to it, happened entirely or not at all."""
    async with opened_at(under_test) as opened:
        for number in range(1, 9):
            body = b"cancelled %d" % number
            changes = rows(opened, range_of(number, 1))
            call = asyncio.ensure_future(opened.ledger.append([body, body], changes))
            for _ in range(number % 4):
                await asyncio.wait([call], timeout=0)
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
            await opened.ledger.append([b"next"], [])
        seen, mark = await replayed(opened.ledger), opened.ledger.mark
    _require_whole_pairs(seen, mark)
    async with opened_at(under_test) as opened:
        require(await replayed(opened.ledger) == seen, "open with what it held, after cancelled appends too")


def _require_whole_pairs(seen: list[Replayed], mark: Mark) -> None:
    require([replayed.position for replayed in seen] == list(range(1, len(seen) + 1)), "leave no hole in the positions")
    require(mark.position == len(seen) and seen[-1].mark == mark, "show the last durable mark after a cancelled append")
    bodies = [replayed.body for replayed in seen]
    require(bodies.count(b"next") == 8, "go on after a cancelled append")
    require(all(bodies.count(body) in (2, 8) for body in set(bodies)), "keep an append whole or not at all")


async def readers_never_meet_the_writer(under_test: LedgersUnderTest) -> None:
    """Checks that reads are correct while rows are written."""
    async with opened_at(under_test) as opened:
        ledger, outputs = opened.ledger, outputs_of(opened)

        async def read() -> None:
            offset = 0
            while offset < 30:
                for chunk in await outputs.fetch("t", 0, offset, 10, BIG):
                    require(
                        chunk.data == range_of(chunk.first_offset + 1, 1).data, "serve each row under its own offset"
                    )
                    offset = chunk.first_offset + chunk.rows
                await asyncio.wait([writing], timeout=0.001)

        async def write() -> None:
            for number in range(30):
                await ledger.append([b"x"], [range_of(number + 1, 1), publish(number, number + 1)])

        writing = asyncio.ensure_future(write())
        await asyncio.wait_for(asyncio.gather(writing, read(), read()), timeout=60)


async def namespaces_are_apart(under_test: LedgersUnderTest) -> None:
    """Checks that two namespaces share neither key, id, entries nor rows."""
    async with under_test.ledgers() as ledgers:
        await ledgers.create("other")
        await ledgers.create("other")
        require(ledgers.names() == sorted(["other", NAMESPACE]), "list the namespaces, sorted")
        async with ledgers.open(NAMESPACE) as first, ledgers.open("other") as second:
            await first.ledger.append([b"mine"], rows(first, range_of(1, 1), publish(0, 1)))
            require(first.key != second.key, "give each namespace a key of its own")
            require(first.ledger.mark.ledger != second.ledger.mark.ledger, "give each ledger an id of its own")
            require(await read(second.ledger) == [], "keep namespaces apart")
            if second.outputs is not None:
                require(await second.outputs.fetch("t", 0, 0, 1, BIG) == [], "keep the topics of namespaces apart")
        key = bytes(range(32))
        await ledgers.create("carried", key)
        async with ledgers.open("carried") as third:
            require(third.key == key, "give a namespace the key that it is made with")


async def a_deleted_namespace_answers_nobody(under_test: LedgersUnderTest) -> None:
    """Checks that a deleted namespace's name can be used for a new ledger, at once and after a crash."""
    async with under_test.ledgers() as ledgers:
        await ledgers.create("other")
        async with ledgers.open("other") as opened:
            key, mark = opened.key, await opened.ledger.append([b"old"], rows(opened, range_of(1, 1), publish(0, 1)))
        await ledgers.delete("other")
        require(ledgers.names() == [NAMESPACE], "list no namespace that was deleted")
        await _is_unknown(ledgers)
        under_test.crash()
    async with under_test.ledgers() as ledgers:
        require(ledgers.names() == [NAMESPACE], "have deleted for good when it says so")
        await _is_unknown(ledgers)
        await ledgers.create("other")
        async with ledgers.open("other") as opened:
            require(opened.key != key, "give a name that is used again a key of its own")
            require(opened.ledger.mark.ledger != mark.ledger, "give a name that is used again a ledger of its own")
            require(await read(opened.ledger) == [], "answer nothing of what was deleted under its name")
            if opened.outputs is not None:
                require(await opened.outputs.fetch("t", 0, 0, 1, BIG) == [], "give no rows of a deleted ledger back")


async def _is_unknown(ledgers: Ledgers) -> None:
    for call in (ledgers.open("other").__aenter__, partial(ledgers.delete, "other")):
        try:
            await call()
        except NotFound:
            continue
        require(False, "know nothing of a namespace that was deleted")


async def a_replay_may_be_left_early(under_test: LedgersUnderTest) -> None:
    """Checks that a replay that is closed early leaves the ledger unchanged."""
    async with opened_at(under_test) as opened:
        await opened.ledger.append([b"a"], [])
        async with aclosing(opened.ledger.replay(1)) as batches:
            require((await anext(batches))[0].body == b"a", "replay the first batch first")
        async with aclosing(opened.ledger.replay(1)):
            pass
        await opened.ledger.append([b"b"], [])
        require(await read(opened.ledger) == [(1, b"a"), (2, b"b")], "go on after a replay that was left early")


async def its_owner_is_known_at_any_time(under_test: LedgersUnderTest) -> None:
    """Checks `require_owner`, called in the event loop and in a thread, and the error of a closed ledger."""
    async with opened_at(under_test) as opened:
        opened.require_owner()
        await asyncio.to_thread(opened.require_owner)
        require(opened.end.ending is None, "go on while it has its owner")
    try:
        opened.require_owner()
    except LedgerFenced:
        require(opened.end.ending is not None, "note that it was closed")
        return
    require(False, "say that an owner that has left owns nothing")


async def the_room_that_is_left_is_known(under_test: LedgersUnderTest) -> None:
    """Checks the names of namespaces and the number of free bytes."""
    async with under_test.ledgers() as ledgers, ledgers.open(NAMESPACE) as opened:
        require(NAMESPACE in ledgers.names(), "list its namespaces")
        free, total = opened.storage.free_bytes()
        require(0 <= free <= total and total > 0, "tell how much room there is")


LEDGER_CHECKS = (
    entries_come_back_in_order,
    marks_tell_histories_apart,
    opening_again_gives_the_same,
    nothing_is_answered_before_it_is_durable,
    an_older_owner_is_fenced,
    empty_appends_change_nothing,
    sizes_do_not_matter,
    a_cancelled_caller_corrupts_nothing,
    a_replay_may_be_left_early,
    its_owner_is_known_at_any_time,
    the_room_that_is_left_is_known,
)
CHECKS: Checks = {
    **dict.fromkeys(LEDGER_CHECKS, frozenset[Ability]()),
    readers_never_meet_the_writer: frozenset({Ability.OUTPUTS}),
    namespaces_are_apart: frozenset({Ability.NAMESPACES}),
    a_deleted_namespace_answers_nobody: frozenset({Ability.NAMESPACES}),
    **OUTPUT_CHECKS,
    **COMPACTION_CHECKS,
    **RUNS_CHECKS,
}


def why_skipped(check: LedgerCheck, leaving_out: Collection[Ability]) -> str | None:
    """Returns why a check is skipped for a ledger without these abilities, or None if it is not skipped."""
    missing = sorted(CHECKS[check].intersection(leaving_out))
    return f"the ledger leaves out {', '.join(missing)}" if missing else None


async def check_ledger(make_place: MakePlace, leaving_out: Collection[Ability] = ()) -> dict[str, str]:
    """Runs every check, each in a new place. Raises AssertionError at the first broken promise.

    leaving_out: abilities that the ledger leaves out, from the table in `oncegate.ports.ledger`. Returns the names of
    the skipped checks, each with the reason.
    """
    skipped = {}
    for check in CHECKS:
        reason = why_skipped(check, leaving_out)
        if reason is not None:
            skipped[check.__name__] = reason
            continue
        async with make_place() as under_test:
            await check(under_test)
    return skipped
