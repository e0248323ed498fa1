"""Every state that a power failure can leave of a client's disk: acknowledged entries are there, and everything is
whole.

Enumerated as for the ledger: each prefix of the operations × pending names × the unsynced writes whole, absent or torn.
"""

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from oncegate_spark import Spill
from oncegate_spark.delivery import FolderSink, Record
from oncegate_spark.protocol import marks
from oncegate_spark.spark.checkpoint.acks_kept import keep
from oncegate_spark.spark.sinks import FileSink, SinkContext, read_files
from oncegate_spark.spill import SpillEntry
from tests.support.recorded_files import RecordedFiles, left


@pytest.fixture
def recorded(tmp_path: Path) -> RecordedFiles:
    (root := tmp_path / "root").mkdir()
    return RecordedFiles(root)


def entry(*ids: str) -> SpillEntry:
    return SpillEntry("shop", "orders", pa.table({"id": list(ids)}), ("id",))


def waiting(spill: Spill) -> list[str]:
    """Returns the first id of each entry in order, and removes the entries."""
    found = []
    while (oldest := spill.oldest()) is not None:
        found.append(oldest[1].rows.column("id")[0].as_py())
        spill.done(oldest[0])
    return found


def test_a_spill_has_what_it_acknowledged_in_order_and_whole_whenever_the_power_fails(
    recorded: RecordedFiles, tmp_path: Path
) -> None:
    folder = recorded.root / "deep" / "spill"
    with recorded.recording():
        spill = Spill(folder)
        for one in "abc":
            spill.append(entry(one))
            recorded.note(f"append {one}")
        recorded.note("done a")  # from here on the entry may be gone, or come again
        spill.done(0)
        recorded.note("begins b")
        spill.set_aside(1)
        recorded.note("aside b")
        spill.append(entry("d"))
        recorded.note("append d")
    spill.close()
    states = 0
    for notes, state in recorded.crashes():
        done = {note.split()[1] for note in notes if not note.startswith("append")}
        acknowledged = [one for one in "abcd" if f"append {one}" in notes and one not in done]
        with left(state, recorded.root, tmp_path / "left") as root, Spill(root / "deep" / "spill") as later:
            later.append(entry("z"))
            found = waiting(later)
            aside = [SpillEntry.decode(file.read_bytes()) for file in later.folder.glob("*.aside")]
        assert [one for one in found if one in acknowledged] == acknowledged, notes
        assert found == sorted(found), "in order, and nothing behind what is appended now"
        assert len(aside) == 1 or "aside b" not in notes
        assert "b" not in found or "aside b" not in notes
        states += 1
    assert states > 30


def whole_files(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()} if folder.is_dir() else {}


@pytest.mark.parametrize(
    ("name", "put"),
    [
        ("oncegate/default.mark", lambda root, n: marks.keep(root, "default", f"aa:{n}:00")),
        ("oncegate/acks/7-x.json", lambda root, n: keep(root / "oncegate/acks/7-x.json", json.dumps({"batch": n}))),
    ],
    ids=["mark", "acks"],
)
def test_files_beside_a_checkpoint_are_old_or_new_and_new_once_acknowledged(
    recorded: RecordedFiles, tmp_path: Path, name: str, put: Callable[[Path, int], None]
) -> None:
    texts: list[bytes | None] = [None]
    with recorded.recording():
        for n in (1, 2):
            put(recorded.root, n)
            texts.append((recorded.root / name).read_bytes())
            recorded.note(f"kept {n}")
    states = 0
    for notes, state in recorded.crashes():
        with left(state, recorded.root, tmp_path / "left") as root:
            found = (root / name).read_bytes() if (root / name).exists() else None
        assert found in texts[len(notes) : len(notes) + 2], (notes, found)
        states += 1
    assert states > 10


def test_a_folder_sink_has_each_file_that_it_acknowledged_and_shows_none_in_part(
    recorded: RecordedFiles, tmp_path: Path
) -> None:
    folder, bodies = recorded.root / "new" / "out", {f"id-{n}": b"%d" % n * 1_500 for n in range(3)}
    with recorded.recording():
        sink = FolderSink(folder)
        for one, body in bodies.items():
            sink.write([Record(one, body)])
            recorded.note(one)
        assert sink.find(["id-0", "other"]) == {"id-0"}
    for notes, state in recorded.crashes():
        with left(state, recorded.root, tmp_path / "left") as root:
            found = {name: body for name, body in whole_files(root / "new" / "out").items() if name[0] != "."}
        assert set(notes) <= set(found)
        assert found.items() <= bodies.items()


def test_a_folder_sink_finds_only_what_a_power_failure_leaves(recorded: RecordedFiles, tmp_path: Path) -> None:
    """Its writer died when the file had its unsynced name. A later writer that finds the file completes its claim."""
    folder = recorded.root / "out"
    with recorded.recording():
        sink = FolderSink(folder)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("oncegate_spark.delivery.folder.sync_folder", dies)
            with pytest.raises(KeyboardInterrupt):
                sink.write([Record("a", b"body")])
        assert FolderSink(folder).find(["a"]) == {"a"}
        recorded.note("found")
    for notes, state in recorded.crashes():
        with left(state, recorded.root, tmp_path / "left") as root:
            assert "a" in whole_files(root / "out") or "found" not in notes


def dies(_: Path) -> None:
    raise KeyboardInterrupt


def test_a_file_sink_has_each_batch_that_it_acknowledged_and_reads_back_no_other_rows(
    recorded: RecordedFiles, tmp_path: Path
) -> None:
    folder = recorded.root / "new" / "out"
    with recorded.recording():
        sink = FileSink()
        sink.open(
            SinkContext(options={"sinkpath": str(folder)}, token="t", partition=0, attempt=0, namespace="n", topic="t")
        )
        for n in range(3):
            sink.write(pa.record_batch({"n": [n]}))
            recorded.note(str(n))
        sink.close()
    for notes, state in recorded.crashes(blocks_are_lost=False):  # a stream has no padding between its batches
        with left(state, recorded.root, tmp_path / "left") as root:
            table = read_files(root / "new" / "out")
        found = [] if table is None else table.column("n").to_pylist()
        assert found in (list(range(len(notes))), list(range(len(notes) + 1)))
