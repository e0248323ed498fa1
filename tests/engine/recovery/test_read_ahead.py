"""What is read ahead comes as if it were not, and no thread is left behind."""

import threading
from collections.abc import Iterator

import pytest

from oncegate.engine.recovery import read_ahead as module
from oncegate.engine.recovery.read_ahead import read_ahead


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Batches of three items; and afterwards no thread more than before."""
    monkeypatch.setattr(module, "BATCH_BYTES", 3)
    before = threading.active_count()
    yield
    assert threading.active_count() == before


def one(item: object) -> int:
    return 1


def failing(count: int) -> Iterator[int]:
    yield from range(count)
    raise ValueError("damaged here")


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 100])
def test_all_items_come_in_order(count: int) -> None:
    assert list(read_ahead(range(count), one)) == list(range(count))


@pytest.mark.parametrize("count", [0, 1, 3, 50])
def test_an_error_comes_after_what_was_before_it(count: int) -> None:
    seen = []
    with pytest.raises(ValueError, match="damaged here"):
        seen.extend(_kept(seen, read_ahead(failing(count), one)))
    assert seen == list(range(count))


def _kept(seen: list[int], items: Iterator[int]) -> Iterator[int]:
    for item in items:
        seen.append(item)
        yield from ()


@pytest.mark.parametrize("taken", [0, 1, 7])
def test_whoever_stops_early_leaves_no_reader_behind(taken: int) -> None:
    """Of many more than are read ahead: the reader waits for room meanwhile."""
    items = read_ahead(range(10_000), one)
    assert [next(items) for _ in range(taken)] == list(range(taken))
    items.close()


def test_no_more_is_read_than_some_batches_ahead() -> None:
    read = []
    items = read_ahead((read.append(n) or n for n in range(10_000)), one)
    next(items)
    assert len(read) <= 3 * (module.BATCHES_AHEAD + 3)
    items.close()
