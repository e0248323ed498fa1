"""Pairs of steps that have a required order, swapped: the durable one first, the report last.

Swaps that no test detects, and why:

RedisLedger.keep_up       `witness.sync`, `_shorten`: the deleted entries were replaced by a frame, which outlives them in
                          the stream; the witness must only be between the first and the last frame that are kept
RedisLedger._shorten      `trim` of frames, `trim` of states: the last compaction names neither; earlier ones are not read
RedisLedger._replace      `fold.adopt`, `witness.see`: the first one changes memory only, and not the end
FrameWriter._decide       (Redis) `link.drop`, `_renewed`: a link that lost an answer has dropped its connection itself, and
                          one whose replicas lag has no request in flight
KafkaLedger.keep_up       `_witness`, `_prove`, `_shorten`: as for Redis; a generation that is not proved is ended once more
Ownership.begin           `_end_all`, `guard.start`: the gateway's own id commits nothing before `begin` returns
open_place                (Kafka) `heal`, `prove`: a healing that fails is left to the upkeep, and is no error here either
open_place                (Kafka) `prove`, `_witness`: after a crash in between, generations are ended once more, or the
                          witness of the former owner counts, which has seen less
Election._lead            its own beat, removal of others' beats: silence is counted from any change of a beat
"""

from tests.mutants.edits import move, swap
from tests.mutants.mutant import Mutant, one

_DELETED = "tests/faults/ledger/test_deleted_ledgers.py"
_CREATED = "tests/faults/ledger/test_outputs.py::test_a_crash_while_a_namespace_is_made_leaves_it_whole_or_not_at_all"
_CRASHES = "tests/client/test_crash_states.py"
_REDIS = "oncegate.ledgers.redis"
_REDIS_OPENING = f"{_REDIS}.shard.opening::open_place"
_REDIS_DAMAGE = "tests/faults/redis/test_ledger_damage.py"
_KAFKA_OPENING = "oncegate.ledgers.kafka.shard.opening::open_place"
_KAFKA_OWN = "await _own(...)"
_KAFKA_STEPS = "tests/faults/ledger/test_kafka_step_order.py"
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
    one(
        "a frame on Redis is seen by its witness before it is written",
        f"{_REDIS}.shard.ledger::RedisLedger._append",
        swap(
            "await self._dying(self._writer.write(...), by_append=True)",
            "await self._dying(self._witness.see(self._fold.end), by_append=True)",
        ),
        f"{_REDIS_DAMAGE}::test_a_server_that_lost_its_last_appends_is_detected_by_the_witness",
    ),
    one(
        "a collection on Redis is seen by its witness before it is written",
        f"{_REDIS}.shard.ledger::RedisLedger._replace",
        swap("await self._dying(self._writer.write(...))", "await self._dying(self._witness.see(fold.end))"),
        f"{_REDIS_DAMAGE}::test_a_server_that_lost_a_frame_without_an_append_is_seen_by_the_witness[collection]",
    ),
    one(
        "an opening on Redis is seen by its witness before its entry of ownership is written",
        _REDIS_OPENING,
        swap("await writer.write(...)", "await witness.own(...)"),
        f"{_REDIS_DAMAGE}::test_a_server_that_lost_a_frame_without_an_append_is_seen_by_the_witness[opening]",
    ),
    one(
        "a ledger on Redis is fenced before its head is compared with the witness",
        _REDIS_OPENING,
        move("require_witnessed(...)", after="head = await writer.own(head, lead)"),
        f"{_REDIS_DAMAGE}::test_a_server_that_was_set_back_keeps_its_head_and_its_frames_as_they_are",
    ),
    one(
        "a ledger on Redis has an entry of ownership before its key is looked at",
        _REDIS_OPENING,
        swap("require_key(...)", "await writer.write(...)"),
        f"{_REDIS_DAMAGE}::test_a_ledger_whose_listed_key_is_another_is_refused_and_no_frame_is_written",
    ),
    one(
        "the frames of a ledger on Redis are read before its former owner is fenced",
        _REDIS_OPENING,
        move("head = await writer.own(head, lead)", before="require_key(...)"),
        (
            "tests/faults/redis/test_ledger_ownership.py::"
            "test_all_that_an_owner_appended_until_it_was_fenced_is_read_by_its_successor"
        ),
    ),
    one(
        "the fence of a ledger on Redis is raised before the holder is known",
        f"{_REDIS}.shard.writer::FrameWriter.own",
        swap("await lead()", "taken = await take(...)"),
        "tests/faults/redis/test_standby_ledger.py::test_a_standby_keeps_its_promises[a_gateway_that_was_not_elected_owns_nothing]",
    ),
    one(
        "the witness of a ledger on Redis is closed before it is synced",
        f"{_REDIS}.witnesses::Witness._close",
        swap("writer.sync()", "writer.close()"),
        "tests/faults/redis/test_witness_crashes.py::test_a_witness_that_is_closed_has_seen_what_it_was_given_last",
    ),
    one(
        "a gateway announces its end before it stops its heartbeat",
        "oncegate.ledgers.server.election::Election.close",
        move("if self.leads:\n    ...", before="self._task.cancel()"),
        "tests/faults/ledger/test_election.py::test_a_gateway_that_says_goodbye_looks_and_beats_no_more",
    ),
    one(
        "the list of namespaces is closed before a gateway announces its end",
        "oncegate.ledgers.server.ledgers::ServerLedgers.close",
        move("await self._list.close()", before="if self._keeper is not None:\n    ..."),
        "tests/faults/redis/test_standby_ledger.py",
    ),
    one(
        "a generation is proved before its entry of ownership",
        _KAFKA_OPENING,
        move(
            "if not ownership.user_partitions.is_due(place.told_by_frames):\n    ...", before=f"read_to = {_KAFKA_OWN}"
        ),
        f"{_KAFKA_STEPS}::test_an_opening_whose_entry_of_ownership_is_lost_proves_nothing_and_leaves_the_witness_before",
    ),
    one(
        "a ledger on Kafka is witnessed before its entry of ownership",
        _KAFKA_OPENING,
        swap("await _witness(...)", f"read_to = {_KAFKA_OWN}"),
        f"{_KAFKA_STEPS}::test_an_opening_whose_entry_of_ownership_is_lost_proves_nothing_and_leaves_the_witness_before",
    ),
    one(
        "the frames of a ledger on Kafka are read before its former owner is fenced",
        _KAFKA_OPENING,
        swap("guard = await ownership.begin()", "fold = await _read_owned(...)"),
        f"{_KAFKA_STEPS}::test_what_an_owner_commits_until_it_is_fenced_is_known_to_the_next_owner",
    ),
    one(
        "a ledger on Kafka has an entry of ownership before its key is looked at",
        _KAFKA_OPENING,
        swap("require_key(...)", f"read_to = {_KAFKA_OWN}"),
        f"{_KAFKA_STEPS}::test_a_ledger_of_another_key_has_no_entry_of_ownership_of_who_was_refused",
    ),
    one(
        "the witnesses before an owner's are forgotten before its own is written",
        "oncegate.ledgers.kafka.shard.opening::_witness",
        swap("await listed.witness(...)", "for older in _:\n    ..."),
        f"{_KAFKA_STEPS}::test_the_witness_before_stays_listed_until_that_of_the_next_owner_is",
    ),
    one(
        "a change of the list is decided before those who change it are fenced",
        "oncegate.ledgers.kafka.namespaces::NamespaceTopic._change",
        swap("await self._start(guard)", "changes = decide(await self.refresh())"),
        f"{_KAFKA_STEPS}::test_a_change_of_the_list_is_decided_upon_all_that_was_written_before_its_id_was_taken",
    ),
    one(
        "a witness counts as written before it is",
        "oncegate.ledgers.kafka.shard.ledger::KafkaLedger._witness",
        swap("await self._list.witness(...)", "self._witnessed = end.serial"),
        f"{_KAFKA_STEPS}::test_a_witness_that_could_not_be_written_is_written_by_the_next_upkeep",
    ),
    one(
        "generations count as proved before they are",
        "oncegate.ledgers.kafka.shard.ledger::KafkaLedger._prove",
        swap("await self._writer.ownership.prove(proved)", "self._proved = proved"),
        f"{_KAFKA_STEPS}::test_generations_that_could_not_be_proved_are_proved_by_the_next_upkeep",
    ),
    one(
        "stages count as deleted before they are",
        "oncegate.ledgers.kafka.shard.ledger::KafkaLedger._shorten_stages",
        swap("if offset > 0:\n    ...", "self._stages_shortened_to = stages_to"),
        f"{_KAFKA_STEPS}::test_stages_that_could_not_be_deleted_are_deleted_by_the_next_upkeep",
    ),
)
