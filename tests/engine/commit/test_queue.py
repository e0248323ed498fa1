"""The queue of changes alone: the size of an append, and the search for the change that was refused."""

import pytest

from oncegate.core.errors import TooLarge
from oncegate.engine.commit import queue as commit_queue
from oncegate.engine.commit.queue import Change, ChangeQueue
from oncegate.ports import AppendRefused, DropRanges


def change(size_bytes: int = 1, outputs: int = 0) -> Change:
    return Change([bytes(size_bytes)], [DropRanges(()) for _ in range(outputs)], lambda: None, lambda: None, None)


def queued(*changes: Change) -> ChangeQueue:
    queue = ChangeQueue()
    for one in changes:
        queue.changes.append(one)
    return queue


def test_a_group_of_exactly_the_most_bytes_is_one_append(monkeypatch: pytest.MonkeyPatch) -> None:
    changes = [change(100) for _ in range(3)]
    monkeypatch.setattr(commit_queue, "GROUP_BYTES_MAX", sum(one.size_bytes for one in changes))
    queue = queued(*changes)
    assert queue.fits_one_group
    assert queue.take_group() == changes
    for one in (*changes, change(0)):
        queue.changes.append(one)
    monkeypatch.setattr(commit_queue, "GROUP_BYTES_MAX", commit_queue.GROUP_BYTES_MAX - 1)
    assert not queue.fits_one_group
    assert queue.take_group() == changes[:2]


@pytest.mark.parametrize(("first_output", "before"), [(0, 1), (1, 1), (2, 2), (3, 2)])
def test_changes_before_the_one_with_the_refused_output_are_appended_without_it(first_output: int, before: int) -> None:
    """Its own outputs are the third and the fourth of the group."""
    changes = [change(), change(outputs=2), change(outputs=2), change()]
    queue = queued(*changes)
    queue.refused(queue.take_group(), AppendRefused(TooLarge("more than the topic takes"), first_output))
    assert queue.take_group() == changes[:before]


def test_of_a_group_that_was_undone_no_change_is_sought_any_more() -> None:
    queue = queued(*(change() for _ in range(4)))
    queue.refused(queue.take_group(), AppendRefused(TooLarge("more than the topic takes"), None))
    assert not queue.fits_one_group
    assert len(queue.take_all()) == 4
    later = [change() for _ in range(3)]
    for one in later:
        queue.changes.append(one)
    assert queue.fits_one_group
    assert queue.take_group() == later
