"""Pairs of steps that must be done in one order, swapped: what is durable first, and who is told last."""

from tests.mutants.edits import swap
from tests.mutants.mutant import Mutant, one

_DELETED = "tests/faults/ledger/test_deleted_ledgers.py"
_CREATED = "tests/faults/ledger/test_outputs.py::test_a_crash_while_a_namespace_is_made_leaves_it_whole_or_not_at_all"
_CRASHES = "tests/client/test_crash_states.py"
_FLUSH, _FSYNC = "file.flush()", "os.fsync(file.fileno())"

STEP_ORDER: tuple[Mutant, ...] = (
    one(
        "a file of a folder is synced before it is written",
        "oncegate.ledgers.disk::replace_file",
        swap("disk.write(fd, parts, 0)", "disk.sync(fd)"),
        _CREATED,
    ),
    one(
        "a folder is synced before a file has its name",
        "oncegate.ledgers.disk::replace_file",
        swap("disk.rename(temporary, path)", "disk.sync_folder(path.parent)"),
        _CREATED,
    ),
    one(
        "a new ledger's name is synced before it is given",
        "oncegate.ledgers.log.opening.create::_make_folder",
        swap("disk.rename(folder, root / namespace)", "disk.sync_folder(root)"),
        _CREATED,
    ),
    one(
        "a new ledger is listed in its folder before its witness's list",
        "oncegate.ledgers.log.data_dir::DataDir.create",
        swap("write_list(self.disk, self.witness, ledgers)", "write_list(self.disk, self.root, ledgers)"),
        _CREATED,
    ),
    one(
        "a deleted ledger's folder is synced before it is moved",
        "oncegate.ledgers.log.deleted::set_aside",
        swap("disk.rename(root / namespace, aside)", "disk.sync_folder(root)"),
        _DELETED,
    ),
    one(
        "a ledger's witness is moved aside before its folder",
        "oncegate.ledgers.log.data_dir::DataDir.delete",
        swap("set_aside(...)", "set_witness_aside(...)"),
        _DELETED,
    ),
    one(
        "a deletion takes its ledger from the witness's list first",
        "oncegate.ledgers.log.data_dir::DataDir.delete",
        swap("write_list(self.disk, self.root, others)", "write_list(self.disk, self.witness, others)"),
        _DELETED,
    ),
    one(
        "a restored folder has its name before its list",
        "oncegate.ledgers.log.admin.restore::_name",
        swap("write_list(data.disk, begun, ledgers)", "data.disk.rename(begun, data.root)"),
        "tests/faults/ledger/test_backups.py",
    ),
    one(
        "a restored folder's name is synced before it is given",
        "oncegate.ledgers.log.admin.restore::_name",
        swap("data.disk.rename(begun, data.root)", "data.disk.sync_folder(data.root.parent)"),
        (
            "tests/faults/ledger/test_backups.py::test_a_crash_in_a_restore_leaves_it_whole_or_not_there_and_whole_once_it_returned"
        ),
    ),
    one(
        "a snapshot's name is synced before it is given",
        "oncegate.ledgers.log.files.snapshots::SnapshotWriter.finish",
        swap("self._disk.rename(...)", "self._disk.sync_folder(...)"),
        "tests/faults/ledger/test_compaction_crashes.py",
    ),
    one(
        "a run's name is synced before it is given",
        "oncegate.runs.local::LocalRuns.write",
        swap("self._disk.rename(...)", "self._disk.sync_folder(...)"),
        "tests/faults/ledger/test_runs.py::test_in_every_crash_state_a_run_is_whole_or_not_there",
    ),
    one(
        "the witness sees the end before a frame, and not the frame",
        "oncegate.ledgers.log.writer::LogWriter.write",
        swap("self._write_frame(...)", "self.witness.see(self.segments.end)"),
        "tests/faults/ledger/test_witness.py",
        "tests/faults/ledger/test_data_dir.py",
    ),
    one(
        "a compaction pins its witness before its frame",
        "oncegate.ledgers.log.writer::LogWriter.write_compacted",
        swap("self._write_frame(...)", "self.witness.pin(...)"),
        "tests/faults/ledger/test_compaction_crashes.py",
    ),
    one(
        "the file of keys is synced before it is written",
        "oncegate.transports.access.keys::write",
        swap(_FLUSH, _FSYNC),
        "tests/transports/access/test_keys_file_crashes.py",
    ),
    one(
        "the state of a verification is synced before it is written",
        "oncegate.verifier.state::save",
        swap(_FLUSH, _FSYNC),
        "tests/verifier/test_state_crashes.py",
    ),
    one(
        "a file beside a checkpoint is synced before it is written",
        "oncegate_spark.disk::replace_file",
        swap("out.flush()", "os.fsync(out.fileno())"),
        _CRASHES,
    ),
    one(
        "a file beside a checkpoint has its name synced before it is given",
        "oncegate_spark.disk::replace_file",
        swap("new.replace(file)", "sync_folder(file.parent)"),
        _CRASHES,
    ),
    one(
        "a new folder's name is synced before it is made",
        "oncegate_spark.disk::make_folder",
        swap("folder.mkdir(...)", "sync_folder(folder.parent)"),
        _CRASHES,
    ),
    one(
        "a delivered file is synced before it is written",
        "oncegate_spark.delivery.folder::FolderSink._write",
        swap(_FLUSH, _FSYNC),
        _CRASHES,
    ),
    one(
        "an entry of a spill folder is synced before it is written",
        "oncegate_spark.spill.folder::Spill._write",
        swap(_FLUSH, _FSYNC),
        _CRASHES,
        "tests/client/spill/test_folder.py",
    ),
    one(
        "an entry's name is synced before it is given",
        "oncegate_spark.spill.folder::Spill._write",
        swap("half.rename(path)", "sync_folder(self.folder)"),
        _CRASHES,
        "tests/client/spill/test_folder.py",
    ),
    one(
        "rows of the file sink are synced before they are written",
        "oncegate_spark.spark.sinks::FileSink.write",
        swap("self._file.flush()", "os.fsync(self._file.fileno())"),
        _CRASHES,
    ),
)
