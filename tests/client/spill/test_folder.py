"""The folder of a spill alone: its entries are complete, ordered and bounded, even after crashes."""

import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from oncegate_spark import BadOption, Outcome, Spill, SpillFull, Stopped, Unavailable
from oncegate_spark.spill import SpillEntry


def entry(*ids: str, **more: object) -> SpillEntry:
    return SpillEntry("shop", "orders", pa.table({"id": list(ids)}), ("id",), **more)  # type: ignore[arg-type]


def waiting(spill: Spill) -> list[list[str]]:
    """Returns the ids of each entry in order, and removes the entries."""
    found = []
    while (oldest := spill.oldest()) is not None:
        found.append(oldest[1].rows.column("id").to_pylist())
        spill.done(oldest[0])
    return found


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Limits file sizes, so that writes beyond them fail as on a full disk."""
    before, ignored = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)


def test_spilled_rows_come_back_complete_and_in_order_in_a_later_process(tmp_path: Path) -> None:
    given = entry("a", "b", key_col=("id",), digest_cols=("id",), on_conflict="drop", id_set="s")
    with Spill(tmp_path, wall_ms=lambda: 4_711) as spill:
        for one in (given, entry("c"), entry("d")):
            spill.append(one)
        assert (spill.waiting, spill.waiting_bytes) == (3, sum(path.stat().st_size for path in tmp_path.iterdir()))
    with Spill(tmp_path) as later:
        oldest = later.oldest()
        assert oldest is not None
        assert oldest[1] == replace(given, spilled_ms=4_711)
        later.append(entry("e"))
        assert waiting(later) == [["a", "b"], ["c"], ["d"], ["e"]]
        assert later.waiting == 0
    assert not list(tmp_path.iterdir())


def test_an_entry_is_synced_before_it_has_its_name_and_its_name_before_it_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[str, list[str]]] = []
    fsync = os.fsync

    def noted(number: int) -> None:
        names = sorted(path.suffix for path in tmp_path.iterdir())
        synced.append((Path(os.readlink(f"/proc/self/fd/{number}")).suffix, names))
        fsync(number)

    with Spill(tmp_path) as spill:
        monkeypatch.setattr(os, "fsync", noted)
        spill.append(entry("a"))
    assert synced == [(".half", [".half"]), (tmp_path.suffix, [".rows"])]


def test_rows_half_spilled_by_a_dead_process_are_dropped_because_they_were_never_acknowledged(tmp_path: Path) -> None:
    whole = entry("a").encode()
    (tmp_path / f"{0:020d}.rows").write_bytes(whole)
    (tmp_path / f"{1:020d}.half").write_bytes(whole[:-7])
    with Spill(tmp_path) as spill:
        assert waiting(spill) == [["a"]]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("at", [0, 17, 21, 40, -1])
def test_a_damaged_entry_stops_later_ones_until_a_person_sets_it_aside(tmp_path: Path, at: int) -> None:
    with Spill(tmp_path) as spill:
        spill.append(entry("a"))
        spill.append(entry("b"))
        path = tmp_path / f"{0:020d}.rows"
        data = bytearray(path.read_bytes())
        data[at] ^= 1
        path.write_bytes(data)
        with pytest.raises(Stopped, match=r"set_aside\(0\).*unknown") as raised:
            spill.oldest()
        assert raised.value.outcome is Outcome.UNKNOWN
        assert raised.value.extra["spill_number"] == 0
        aside = spill.set_aside(0)
        assert waiting(spill) == [["b"]]
    with Spill(tmp_path) as later:
        assert later.waiting == 0
        assert later.set_aside(later.append(entry("c"))) != aside, "rows set aside are never overwritten"
    assert bytes(data) == aside.read_bytes()


def test_a_folder_takes_no_more_than_its_bytes_and_is_as_it_was_after_a_refusal(tmp_path: Path) -> None:
    size = len(entry("a", spilled_ms=4_711).encode())
    with Spill(tmp_path, bytes_max=2 * size, wall_ms=lambda: 4_711) as spill:
        spill.append(entry("a"))
        spill.append(entry("b"))
        with pytest.raises(SpillFull, match=r"bytes_max; nothing was written") as raised:
            spill.append(entry("c"))
        assert raised.value.outcome is Outcome.NOT_WRITTEN
        assert waiting(spill) == [["a"], ["b"]]
        spill.append(entry("d"))
        assert waiting(spill) == [["d"]]


def test_a_disk_that_refuses_leaves_nothing_behind(tmp_path: Path) -> None:
    with Spill(tmp_path) as spill:
        with files_of_at_most(64), pytest.raises(SpillFull, match=r"refuses.*nothing was written"):
            spill.append(entry("a"))
        assert not list(tmp_path.iterdir())
        spill.append(entry("b"))
        assert waiting(spill) == [["b"]]


def test_only_the_oldest_entry_is_set_aside_by_its_number_and_never_while_it_is_sent(tmp_path: Path) -> None:
    with Spill(tmp_path) as spill:
        with pytest.raises(BadOption, match=r"only the oldest entry of .*, None,"):
            spill.set_aside(0)
        first, second = spill.append(entry("a")), spill.append(entry("b"))
        with pytest.raises(BadOption, match=f"only the oldest entry of .*, {first}, can be set aside, not {second}"):
            spill.set_aside(second)
        with spill.turn(), pytest.raises(Unavailable, match="again; unknown") as raised:
            spill.set_aside(first)
        assert raised.value.outcome is Outcome.UNKNOWN
        spill.done(first)
        with pytest.raises(BadOption, match=f"not {first}; nothing was set aside"):
            spill.set_aside(first)
        assert waiting(spill) == [["b"]]


def test_an_entry_that_cannot_be_removed_is_reported_as_written_and_kept(tmp_path: Path) -> None:
    with Spill(tmp_path) as spill:
        number = spill.append(entry("a"))
        path = tmp_path / f"{number:020d}.rows"
        path.unlink()
        path.mkdir()
        with pytest.raises(Stopped, match=r"cannot be removed: .*sent again.*; its rows are written$") as raised:
            spill.done(number)
        assert raised.value.outcome is Outcome.WRITTEN
        assert spill.waiting == 1
        path.rmdir()
        spill.done(number)
        assert spill.waiting == 0


def test_the_number_of_a_refused_entry_whose_file_stays_is_given_to_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk fails after the entry has its name, and cannot remove it: a later start sends it."""

    def fails(*_: object, **__: object) -> None:
        raise OSError(5, "injected")

    with Spill(tmp_path) as spill:
        with monkeypatch.context() as patch:
            patch.setattr("oncegate_spark.spill.folder.sync_folder", fails)
            patch.setattr(Path, "unlink", fails)
            with pytest.raises(SpillFull, match="unknown: whether these rows will be sent") as raised:
                spill.append(entry("a"))
        assert raised.value.outcome is Outcome.UNKNOWN
        spill.append(entry("b"))
        assert spill.waiting == 1
    with Spill(tmp_path) as later:
        assert waiting(later) == [["a"], ["b"]]


def test_a_folder_that_cannot_be_made_is_reported_before_anything_is_sent(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadOption, match="cannot be used"):
        Spill(tmp_path / "file")
