"""Checks the sorted LSM runs of a ledger. Part of the conformance suite."""

import asyncio
import gc
from collections.abc import Callable, Iterator

from oncegate.core.errors import LedgerFenced
from oncegate.ports import Ability, Runs
from oncegate.testing.ledger_places import NAMESPACE, Checks, LedgersUnderTest, opened_at, read, require, runs_at

PIECES = [b"first " * 700, b"", b"second " * 2_000, b"."]
WHOLE = b"".join(PIECES)


async def runs_are_written_whole(under_test: LedgersUnderTest) -> None:
    """Checks that runs are listed and read back as written."""
    async with runs_at(under_test) as runs:
        require(runs.names() == [], "begin without runs")
        runs.write("b", PIECES)
        runs.write("a.1-2_3", iter([b"other"]))
        runs.write("empty", [])
        require(runs.names() == ["a.1-2_3", "b", "empty"], "list its runs, sorted")
        require(bytes(runs.open("b")) == WHOLE, "give a run's bytes as they were written")
        require(runs.open("b").readonly, "give a run's bytes to be read only")
        require(bytes(runs.open("empty")) == b"", "keep a run without bytes")
        require(_is_missing(runs, "c"), "say by KeyError that a run is not there")


async def runs_are_replaced_and_removed(under_test: LedgersUnderTest) -> None:
    """Checks that an open run does not change."""
    async with runs_at(under_test) as runs:
        runs.write("a", PIECES)
        before = runs.open("a")
        runs.write("a", [b"newer"])
        require(bytes(runs.open("a")) == b"newer", "replace a run by one of its name")
        require(bytes(before) == WHOLE, "leave what is open as it is when the run is replaced")
        runs.write("b", PIECES)
        opened = runs.open("b")
        runs.remove("b")
        runs.remove("b")
        runs.remove("never")
        require(bytes(opened) == WHOLE, "leave what is open as it is when the run is removed")
        require(_is_missing(runs, "b") and runs.names() == ["a"], "remove a run, once or twice")
        del before, opened
        gc.collect()


async def runs_are_durable(under_test: LedgersUnderTest) -> None:
    """Checks that runs survive a crash."""
    async with runs_at(under_test) as runs:
        runs.write("kept", PIECES)
        runs.write("gone", PIECES)
        runs.remove("gone")
        runs.write("replaced", [b"older"])
        runs.write("replaced", [b"newer"])
        under_test.crash()
    async with runs_at(under_test) as runs:
        require({"kept", "replaced"} <= set(runs.names()), "keep its runs over a crash")
        require(bytes(runs.open("kept")) == WHOLE, "keep a run whole over a crash")
        require(bytes(runs.open("replaced")) == b"newer", "keep the newer run over a crash")
        runs.remove("gone")
        require(_is_missing(runs, "gone"), "remove a run that a crash brought back")


class _Cut(Exception):
    pass


def _cut_short() -> Iterator[bytes]:
    yield WHOLE
    raise _Cut


async def a_run_that_was_cut_short_is_not_there(under_test: LedgersUnderTest) -> None:
    """Checks that an error while a run is written leaves the earlier run, or none."""
    async with runs_at(under_test) as runs:
        runs.write("a", [b"older"])
        for name in ("a", "b"):
            try:
                runs.write(name, _cut_short())
                require(False, "pass on what the pieces raise")
            except _Cut:
                pass
        require(runs.names() == ["a"], "not show a run that was cut short")
        require(bytes(runs.open("a")) == b"older", "keep a run whose replacement was cut short")
        under_test.crash()
    async with runs_at(under_test) as runs:
        require(runs.names() == ["a"], "not show a run that was cut short, after a crash")


async def bad_names_of_runs_are_refused(under_test: LedgersUnderTest) -> None:
    """Checks that invalid names are refused."""
    async with runs_at(under_test) as runs:
        for name in ("", ".", "..", "../a", "a/b", "A", "-a", ".a", "a.tmp", "a" * 65, "a\n", "a\0", "ä"):
            try:
                runs.write(name, PIECES)
            except ValueError:
                require(_is_missing(runs, name), "know no run of a name that it refuses")
                runs.remove(name)
                continue
            require(False, f"refuse a run called {name!r}")
        runs.write("a" * 64, PIECES)
        require(runs.names() == ["a" * 64], "take a name of 64 characters")


def _is_missing(runs: Runs, name: str) -> bool:
    try:
        runs.open(name)
    except KeyError:
        return True
    return False


async def runs_end_with_their_owner(under_test: LedgersUnderTest) -> None:
    """Checks that an owner that has closed its ledger can no longer use runs."""
    async with runs_at(under_test) as older:
        older.write("a", PIECES)
        opened = older.open("a")
    calls: list[Callable[[], object]] = [
        older.names,
        lambda: older.write("a", [b"late"]),
        lambda: older.write("b", [b"late"]),
        lambda: older.open("a"),
        lambda: older.remove("a"),
    ]
    async with runs_at(under_test) as runs:
        for call in calls:
            try:
                call()
            except LedgerFenced:
                continue
            require(False, "refuse runs to an owner that has left")
        require(runs.names() == ["a"], "keep a late owner's runs out")
        require(bytes(runs.open("a")) == WHOLE == bytes(opened), "keep a late owner from changing a run")


async def an_owner_that_leaves_ends_its_writes(under_test: LedgersUnderTest) -> None:
    """Checks that a run being written by a thread never becomes visible once its owner has closed."""
    began, left = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def pieces() -> Iterator[bytes]:
        yield WHOLE
        loop.call_soon_threadsafe(began.set)
        asyncio.run_coroutine_threadsafe(left.wait(), loop).result(60)
        yield WHOLE

    async with runs_at(under_test) as runs:
        writing = asyncio.ensure_future(asyncio.to_thread(runs.write, "late", pieces()))
        await began.wait()
    left.set()
    await asyncio.wait([writing])
    require(isinstance(writing.exception(), LedgerFenced), "refuse a run whose owner has left")
    async with runs_at(under_test) as runs:
        require(runs.names() == [], "show no run whose owner has left")


async def several_runs_are_written_at_once(under_test: LedgersUnderTest) -> None:
    """Checks that threads may write runs concurrently."""
    async with runs_at(under_test) as runs:
        writes = (asyncio.to_thread(runs.write, f"run{n}", [b"%d " % n * 9_000] * 5) for n in range(8))
        await asyncio.wait_for(asyncio.gather(*writes), timeout=60)
        for n in range(8):
            require(bytes(runs.open(f"run{n}")) == b"%d " % n * 45_000, "keep apart runs written at once")


async def runs_of_namespaces_are_apart(under_test: LedgersUnderTest) -> None:
    """Checks that each namespace has its own runs."""
    async with under_test.ledgers() as ledgers:
        await ledgers.create("other")
        folders = under_test.runs()
        async with (
            ledgers.open(NAMESPACE) as first,
            ledgers.open("other") as second,
            folders.open(NAMESPACE, first) as runs,
            folders.open("other", second) as others,
        ):
            runs.write("a", PIECES)
            require(others.names() == [], "keep the runs of namespaces apart")


async def writing_runs_leaves_the_entries_alone(under_test: LedgersUnderTest) -> None:
    """Checks that writing runs does not affect the ledger."""
    async with opened_at(under_test) as opened, under_test.runs().open(NAMESPACE, opened) as runs:
        runs.write("a", PIECES)
        require(await read(opened.ledger) == [], "leave its entries alone when it writes runs")


_CHECKS = (
    runs_are_written_whole,
    runs_are_replaced_and_removed,
    runs_are_durable,
    a_run_that_was_cut_short_is_not_there,
    bad_names_of_runs_are_refused,
    runs_end_with_their_owner,
    an_owner_that_leaves_ends_its_writes,
    several_runs_are_written_at_once,
    writing_runs_leaves_the_entries_alone,
)
RUNS_CHECKS: Checks = {
    **dict.fromkeys(_CHECKS, frozenset[Ability]()),
    runs_of_namespaces_are_apart: frozenset({Ability.NAMESPACES}),
}
