"""Appends run one at a time; a group is closed when the previous append has returned."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from oncegate.core.claims import Verb
from oncegate.engine.commit import queue as commit_queue
from tests.support.memory_gateway import Served, rows_of, run_ready_tasks, serving, wait_until, winner


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with serving() as served:
        yield served


async def test_changes_submitted_during_an_append_form_one_group_after_it(served: Served) -> None:
    served.disk.hold()
    tasks = [served.start(served.claim(f"id {n}", token=n)) for n in range(1, 6)]
    await run_ready_tasks()
    assert served.disk.kinds() == [["Claimed"] * 5], "they came in one turn of the loop"
    later = [await served.begin(served.claim(f"late {n}", token=n, call=2)) for n in range(1, 4)]
    assert served.disk.kinds() == [["Claimed"] * 5]
    await served.disk.release()
    assert served.disk.kinds() == [["Claimed"] * 5, ["Claimed"] * 3]
    assert all(task.done() for task in tasks + later)


async def test_the_first_group_is_answered_while_the_second_is_written(served: Served) -> None:
    served.disk.hold()
    first = await served.begin(served.claim("a"))
    second = await served.begin(served.claim("b", token=2))
    served.disk.gate.set()
    served.disk.gate.clear()  # lets one append through, and its waiters continue
    await run_ready_tasks()
    assert first.done()
    assert not second.done()
    assert served.disk.under_way == 1


async def test_marks_grow_with_each_append_and_every_one_is_known(served: Served) -> None:
    marks = [served.namespace.mark]
    for number in range(3):
        await served.claim(f"id {number}", call=number)
        marks.append(served.namespace.mark)
    assert [mark.position for mark in marks] == [1, 2, 3, 4]
    for mark in marks:
        served.namespace.require(mark)


async def test_the_mark_stays_behind_what_is_only_taken(served: Served) -> None:
    before = served.namespace.mark
    served.disk.hold()
    await served.begin(served.claim("a"))
    assert served.namespace.mark == before


async def test_a_group_is_cut_before_it_grows_too_large(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_queue, "GROUP_BYTES_MAX", 3_000)
    served.disk.hold()
    first = await served.begin(served.claim("first"))
    rows = [rows_of(*range(100 * n, 100 * n + 100)) for n in range(6)]
    stages = [served.start(served.stage(one, token=n + 1)) for n, one in enumerate(rows)]
    await run_ready_tasks()
    await served.disk.release()
    await wait_until(lambda: all(task.done() for task in [first, *stages]))
    sizes = [len(group) for group in served.disk.appends]
    assert sum(sizes) == 7
    assert max(sizes[1:]) * len(rows[0].data) <= 3_000 + len(rows[0].data)
    assert len(sizes) > 3


async def test_one_change_is_never_cut_in_two(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_queue, "GROUP_BYTES_MAX", 1)
    staged = winner(await served.stage(rows_of(1)))
    await served.commit(staged)
    assert served.disk.kinds()[-1] == ["TopicCreated", "Committed"]


async def test_entries_reach_the_ledger_in_the_order_the_index_took_them(served: Served) -> None:
    served.disk.hold()
    await served.begin(served.claim("x"))
    claim = served.disk.appends[0][0].claim  # type: ignore[union-attr]
    asked = [served.settle(Verb.RELEASE, claim), served.claim("x", token=2), served.produce(rows_of(1))]
    tasks = [await served.begin(one) for one in asked]
    await served.disk.release()
    await asyncio.gather(*tasks)
    assert served.disk.kinds() == [["Claimed"], ["Released", "Claimed", "TopicCreated", "Produced"]]
