"""A client returns the newest ledger position it has seen; a ledger that never had that position refuses the
request."""

import copy
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from oncegate.core.errors import LedgerBehind
from oncegate.engine.commit.marks import Marks
from oncegate.ports import Mark, OpenLedger
from oncegate.testing.ledger_places import replayed, snapshot_of
from tests.support.memory_gateway import GatedLedgers, Served, serving


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with serving() as served:
        yield served


async def test_a_mark_that_was_given_is_accepted_also_after_a_restart() -> None:
    ledgers = GatedLedgers()
    async with serving(ledgers) as served:
        first = served.namespace.mark
        await served.claim("a", "b")
        second = served.namespace.mark
    async with serving(ledgers) as served:
        await served.claim("c", token=2)
        served.namespace.require(first)
        served.namespace.require(second)


async def test_a_mark_of_another_ledger_is_refused(served: Served) -> None:
    async with serving() as other:
        await other.claim("a")
        with pytest.raises(LedgerBehind, match="this one is"):
            served.namespace.require(other.namespace.mark)
    assert "ledger_behind" in served.events.names()


async def test_an_older_copy_refuses_the_mark_of_what_it_lacks() -> None:
    ledgers = GatedLedgers()
    async with serving(ledgers) as served:
        await served.claim("a")
        old = copy.deepcopy(ledgers._stores)
        await served.claim("b", token=2)
        await served.claim("c", token=3)
        newest = served.namespace.mark
    ledgers._stores = old
    async with serving(ledgers) as restored:
        with pytest.raises(LedgerBehind, match="older copy"):
            restored.namespace.require(newest)


async def test_an_older_copy_that_went_on_refuses_the_mark_of_the_other_history() -> None:
    ledgers = GatedLedgers()
    async with serving(ledgers) as served:
        await served.claim("a")
        old = copy.deepcopy(ledgers._stores)
        await served.claim("b", token=2)
        newest = served.namespace.mark
    ledgers._stores = old
    async with serving(ledgers) as restored:
        for number in range(5):
            await restored.claim(f"other {number}", token=number + 3)
        with pytest.raises(LedgerBehind, match="another history"):
            restored.namespace.require(newest)


class Succeeding(GatedLedgers):
    """Restored ledgers: the id is new, and the previous one is known."""

    predecessors: tuple[bytes, ...] = ()

    def succeed(self) -> None:
        store = self._stores["default"]
        self.predecessors = (store.mark.ledger,)
        store.mark = replace(store.mark, ledger=b"the new id......")

    @asynccontextmanager
    async def open(self, namespace: str) -> AsyncIterator[OpenLedger]:
        async with super().open(namespace) as opened:
            yield replace(opened, history=replace(opened.history, predecessors=self.predecessors))


async def test_a_ledger_position_of_the_predecessor_is_answered_with_a_warning_and_replaced() -> None:
    """A restored copy lacks later entries by design. Its clients continue, and the operator sees which of them had seen
    more."""
    ledgers = Succeeding()
    async with serving(ledgers) as served:
        await served.claim("a")
        kept, old = served.namespace.mark, copy.deepcopy(ledgers._stores)
        await served.claim("b", token=2)
        lost = served.namespace.mark
    ledgers._stores = old
    ledgers.succeed()
    async with serving(ledgers) as restored:
        await restored.claim("c", token=3)
        for mark in (kept, lost):
            restored.namespace.require(mark)
        told = [fields for name, fields in restored.events.seen if name == "mark_of_predecessor"]
        assert [(fields["position"], fields["held"]) for fields in told] == [
            (kept.position, True),
            (lost.position, False),
        ]
        assert told[0]["ledger"] == kept.ledger.hex() != restored.namespace.mark.ledger.hex()
        with pytest.raises(LedgerBehind, match="this one is"):
            restored.namespace.require(replace(kept, ledger=bytes(16)))


async def test_a_mark_below_what_was_collected_passes_and_one_at_its_end_is_compared() -> None:
    """Compacted positions cannot be compared; the client asks a ledger that is beyond them."""
    ledgers = GatedLedgers()
    async with serving(ledgers) as served:
        marks = [served.namespace.mark]
        for number in range(3):
            await served.claim(f"id {number}", token=number)
            marks.append(served.namespace.mark)
    async with ledgers.open("default") as opened:
        entries = await replayed(opened.ledger)
        state = [entry.body for entry in entries if entry.position <= marks[2].position]
        await opened.ledger.compact(marks[2].position, snapshot_of(*state))
    async with serving(ledgers) as served:
        for mark in marks:
            served.namespace.require(mark)
        for mark in marks[2:]:
            with pytest.raises(LedgerBehind, match="another history"):
                served.namespace.require(replace(mark, chain=b"another "))


async def test_a_refused_mark_refuses_only_its_request(served: Served) -> None:
    with pytest.raises(LedgerBehind):
        served.namespace.require(replace(served.namespace.mark, position=1_000))
    served.namespace.require(served.namespace.mark)
    await served.claim("a")


async def test_a_position_inside_an_append_is_no_mark(served: Served) -> None:
    """Ledger positions are returned only for the ends of appends; any other position was not returned by this
    ledger."""
    served.disk.hold()
    tasks = [served.start(served.claim(f"id {n}", token=n)) for n in range(3)]
    await served.disk.release()
    assert all(task.done() for task in tasks)
    mark = served.namespace.mark
    with pytest.raises(LedgerBehind):
        served.namespace.require(replace(mark, position=mark.position - 1))


def test_marks_are_found_by_position_and_chain() -> None:
    marks = Marks(b"L" * 16)
    for position in (3, 7, 7, 20):
        marks.add(Mark(b"L" * 16, position, position.to_bytes(8, "little")))
    for position in (3, 7, 20):
        marks.require(Mark(b"L" * 16, position, position.to_bytes(8, "little")))
    for position, chain in ((3, 4), (5, 5), (1, 1), (0, 0), (21, 21)):
        with pytest.raises(LedgerBehind):
            marks.require(Mark(b"L" * 16, position, chain.to_bytes(8, "little")))


def test_a_mark_just_at_a_collection_is_kept_and_compared() -> None:
    """A client that has seen nothing later returns exactly this position to a healthy gateway."""
    ledger, marks = b"L" * 16, Marks(b"L" * 16)
    for position in (3, 7, 20):
        marks.add(Mark(ledger, position, position.to_bytes(8, "little")))
    marks.compacted(7)
    marks.require(Mark(ledger, 3, b"anything"))
    for position in (7, 20):
        marks.require(Mark(ledger, position, position.to_bytes(8, "little")))
        with pytest.raises(LedgerBehind, match="another history"):
            marks.require(Mark(ledger, position, b"another "))
    marks.compacted(20)
    marks.require(Mark(ledger, 20, (20).to_bytes(8, "little")))
