"""Planted bugs of clients while a gateway is down."""

from tests.mutants.edits import delete, insert, replace, replace_statement, without
from tests.mutants.mutant import Mutant, one

_FOLDER = "tests/client/spill/test_folder.py"
_OWNERSHIP = "tests/client/spill/test_ownership.py"
_DOWN = "tests/client/spill/test_on_down.py"
_COUNTED = "tests/client/spill/test_counted.py"
_LINES = "tests/index/test_spilled_rows.py"
_ENGINE = "tests/engine/usecases/test_spilled.py"
_DOORS = "tests/transports/test_spilled.py"
_EFFORT = "tests/client/protocol/test_effort.py"
_IN_ORDER = (
    f"{_DOWN}::test_a_gateway_that_is_killed_costs_what_it_is_set_to_and_what_waits_is_sent_in_order_before_later_rows"
)

ON_DOWN: tuple[Mutant, ...] = (
    one(
        "a call that is to fail at once is tried for all its time",
        "oncegate_spark.protocol.effort::Effort._pause",
        replace("not self._patient", "self._timeout_ms < 0"),
        f"{_DOWN}::test_a_call_that_fails_at_once_waits_for_nothing",
    ),
    one(
        "what ends begun work is given up at once",
        "oncegate_spark.protocol.calls.steps::Tries.of",
        replace("self.patient or request.ends_work", "self.patient"),
        _IN_ORDER,
    ),
    one(
        "a connection that went stale is an outage",
        "oncegate_spark.protocol.effort::Effort.failed",
        replace("self._unanswered > 1", "self._unanswered > 0"),
        f"{_DOWN}::test_a_lost_reply_is_asked_for_once_more_before_a_gateway_counts_as_down",
    ),
    one(
        "a gateway that is busy counts as down",
        "oncegate_spark.protocol.effort::DOWN_WHEN_ANSWERED",
        replace(
            ("{'LEDGER_DOWN', 'LEDGER_FENCED', 'LEDGER_FULL', 'RECOVERING', 'STOPPING', 'INTERNAL'}"),
            ("{'LEDGER_DOWN', 'LEDGER_FENCED', 'LEDGER_FULL', 'RECOVERING', 'STOPPING', 'INTERNAL', 'OVERLOADED'}"),
        ),
        f"{_EFFORT}::test_a_gateway_that_is_only_busy_is_not_down",
    ),
    one(
        "later rows overtake those that wait",
        "oncegate_spark.sync.spilling::Spilling.produce",
        replace("not self._spill.waiting", "True"),
        f"{_DOWN}::test_rows_refused_by_the_gateway_block_later_ones_until_they_are_set_aside",
    ),
    one(
        "rows are removed before they are done",
        "oncegate_spark.sync.spilling::Spilling._done",
        insert("self._spill.done(number)", after="check_namespace(...)"),
        f"{_DOWN}::test_rows_refused_by_the_gateway_block_later_ones_until_they_are_set_aside",
    ),
    one(
        "rows that wait are sent without their ids",
        "oncegate_spark.sync.spilling::Spilling._done",
        replace("entry.id_col", "()"),
        f"{_DOWN}::test_rows_that_a_process_sent_and_died_before_it_removed_them_are_written_once",
    ),
    one(
        "spilled rows are not reported at all",
        "oncegate_spark.sync.spilling::Spilling.produce",
        without("spilled="),
        _IN_ORDER,
    ),
    one(
        "each call asks a gateway that is down",
        "oncegate_spark.sync.spilling::Spilling._sent",
        delete("self._retry_ms = now_ms() + RETRY_MS"),
        f"{_DOWN}::test_a_gateway_that_stays_down_is_asked_by_few_of_the_calls",
    ),
    one(
        "an entry has its name before it is synced",
        "oncegate_spark.spill.folder::Spill._write",
        delete("os.fsync(...)"),
        f"{_FOLDER}::test_an_entry_is_synced_before_it_has_its_name_and_its_name_before_it_counts",
    ),
    one(
        "two processes send one folder",
        "oncegate_spark.spill.folder::_locked",
        replace("fcntl.LOCK_EX", "fcntl.LOCK_SH"),
        f"{_OWNERSHIP}::test_another_process_is_refused_until_the_first_releases_the_folder",
    ),
    one(
        "a folder grows without bound",
        "oncegate_spark.spill.folder::Spill._check_room",
        replace(
            "waiting + size > self.bytes_max or len(self._sizes) >= ENTRIES_MAX", "len(self._sizes) >= ENTRIES_MAX"
        ),
        f"{_FOLDER}::test_a_folder_takes_no_more_than_its_bytes_and_is_as_it_was_after_a_refusal",
    ),
    one(
        "rows set aside are overwritten by later ones",
        "oncegate_spark.spill.folder::Spill._found",
        without("ASIDE"),
        f"{_FOLDER}::test_a_damaged_entry_stops_later_ones_until_a_person_sets_it_aside",
    ),
    one(
        "rows of another namespace are sent",
        "oncegate_spark.spill.entry::check_namespace",
        replace("entry.namespace != namespace", "not entry.namespace"),
        f"{_DOWN}::test_rows_of_another_namespace_are_not_sent",
    ),
    one(
        "a lost reply is forgotten when the folder is full",
        "oncegate_spark.sync.spilling::Spilling._laid_down",
        replace_statement(
            ("raise SpillFull(f'{full}; before that: {failed}', outcome=failed.outcome) from failed"), "raise"
        ),
        f"{_DOWN}::test_a_full_folder_reports_the_unknown_outcome_of_a_request_whose_reply_was_lost",
    ),
    one(
        "STALE rows are removed unwritten",
        "oncegate_spark.sync.spilling::Spilling._done",
        delete("check_none_stale(...)"),
        f"{_DOWN}::test_rows_that_are_stale_when_sent_are_kept_and_block_later_ones",
    ),
    one(
        "an entry is set aside while it is sent",
        "oncegate_spark.spill.folder::Spill.set_aside",
        replace("not mine", "mine is None"),
        f"{_FOLDER}::test_only_the_oldest_entry_is_set_aside_by_its_number_and_never_while_it_is_sent",
    ),
    one(
        "an entry that did not stop is set aside",
        "oncegate_spark.spill.folder::Spill._renamed",
        replace("number != oldest", "oldest is None"),
        f"{_FOLDER}::test_only_the_oldest_entry_is_set_aside_by_its_number_and_never_while_it_is_sent",
    ),
    one(
        "an entry that cannot be removed counts as removed",
        "oncegate_spark.spill.folder::Spill.done",
        replace_statement(
            "self._path(number).unlink(...)", "with suppress(OSError):\n    self._path(number).unlink(missing_ok=True)"
        ),
        f"{_FOLDER}::test_an_entry_that_cannot_be_removed_is_reported_as_written_and_kept",
    ),
    one(
        "each local user reads the rows that wait",
        "oncegate_spark.spill.folder::Spill._write",
        replace(
            "os.open(half, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 384)",
            "os.open(half, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 420)",
        ),
        f"{_OWNERSHIP}::test_rows_that_wait_are_readable_by_their_user_alone",
    ),
    one(
        "each local user lists the folder of rows that wait",
        "oncegate_spark.spill.folder::Spill.__init__",
        replace("make_folder(self.folder, 448)", "make_folder(self.folder, 493)"),
        f"{_OWNERSHIP}::test_rows_that_wait_are_readable_by_their_user_alone",
    ),
    one(
        "a folder is used that others can write",
        "oncegate_spark.spill.folder::_check_ours",
        replace(
            "status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)",
            "status.st_uid != os.geteuid()",
        ),
        f"{_OWNERSHIP}::test_a_folder_that_others_can_write_is_refused",
    ),
    one(
        "a folder of another user is used",
        "oncegate_spark.spill.folder::_check_ours",
        replace(
            "status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)",
            "status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)",
        ),
        f"{_OWNERSHIP}::test_a_folder_of_another_user_is_refused",
    ),
    one(
        "a forked child keeps the folder of a process that was killed",
        "oncegate_spark.spill.folder::_forget_all",
        replace("list(_HELD)", "list(_HELD)[:0]"),
        f"{_OWNERSHIP}::test_a_folder_is_free_when_its_process_is_killed_though_a_forked_child_lives",
    ),
    one(
        "a forked child gives up the lock of its parent",
        "oncegate_spark.spill.folder::SpillLock.forget",
        replace_statement("if self._release.detach() is not None:\n    ...", "self._release()"),
        f"{_OWNERSHIP}::test_a_forked_child_cannot_use_the_folder_of_its_parent_nor_give_up_its_lock",
    ),
    one(
        "a folder is held after it is closed, by who has a copy of its descriptor",
        "oncegate_spark.spill.folder::_unlocked",
        delete("fcntl.flock(...)"),
        f"{_OWNERSHIP}::test_a_folder_is_free_when_it_is_closed_though_something_has_a_copy_of_its_descriptor",
    ),
    one(
        "a folder whose start fails stays locked",
        "oncegate_spark.spill.folder::Spill.__init__",
        delete("self._lock.release()"),
        f"{_OWNERSHIP}::test_a_folder_whose_start_fails_is_let_go",
    ),
    one(
        "the gateway is not informed that rows had waited",
        "oncegate_spark.sync.spilling::Spilling._done",
        replace("entry.spilled_ms", "None"),
        f"{_COUNTED}::test_a_folder_that_is_drained_is_one_line_of_the_trail_with_since_when_its_rows_had_waited",
    ),
    one(
        "rows are stored with the system clock instead of the folder's",
        "oncegate_spark.spill.folder::Spill.append",
        replace("max(0, self._wall_ms())", "_system_wall_ms()"),
        f"{_COUNTED}::test_a_folder_that_is_drained_is_one_line_of_the_trail_with_since_when_its_rows_had_waited",
    ),
    one(
        "a gateway of the version before stops what waits",
        "oncegate_spark.protocol.calls.attempt::produce_spilled",
        replace("SPILLED_MS not in str(error)", "SPILLED_MS in str(error)"),
        f"{_COUNTED}::test_a_gateway_of_the_previous_version_gets_the_rows_and_a_log_line_reports_that_they_are_not_counted",
    ),
    one(
        "a request refused for another reason is sent again as if it had not waited",
        "oncegate_spark.protocol.calls.attempt::produce_spilled",
        replace("attempt.spilled_ms is None or SPILLED_MS not in str(error)", "attempt.spilled_ms is None"),
        f"{_COUNTED}::test_rows_that_are_refused_for_another_reason_are_not_tried_without_it",
    ),
    one(
        "rows that come at once are counted as those that had waited",
        "oncegate.index.spilled_rows::SpilledRows.apply",
        replace(
            "not isinstance(entry, Produced) or not entry.spilled_ms or not entry.rows",
            "not isinstance(entry, Produced) or not entry.rows",
        ),
        f"{_COUNTED}::test_rows_queued_after_waiting_ones_are_reported_too_and_rows_that_never_waited_are_not",
        f"{_LINES}::test_rows_that_had_not_waited_have_no_line",
    ),
    one(
        "each entry of a folder is a line of the trail",
        "oncegate.index.spilled_rows::SpilledRows.apply",
        replace("self._place(entry)", "None"),
        f"{_LINES}::test_a_folder_of_many_entries_is_one_line_of_an_hour",
    ),
    one(
        "a line never ends",
        "oncegate.index.spilled_rows::SpilledRows._place",
        replace("at if entry.wall_ms - line.begun_ms < LINE_MS else None", "at"),
        f"{_LINES}::test_a_folder_of_many_entries_is_one_line_of_an_hour",
    ),
    one(
        "rows are reported under another caller's name",
        "oncegate.index.spilled_rows::SpilledRows._place",
        replace("(line.who, line.topic) == (entry.spilled_by, entry.topic)", "line.topic == entry.topic"),
        f"{_LINES}::test_each_caller_and_topic_has_a_line_and_the_one_that_grows_is_the_newest",
    ),
    one(
        "lines of rows that had waited have no bound",
        "oncegate.index.spilled_rows::SpilledRows.apply",
        replace("len(self._lines) >= LINES_MAX", "not LINES_MAX"),
        f"{_LINES}::test_the_oldest_lines_go_when_there_are_too_many_and_no_action_of_a_person_does",
    ),
    one(
        "a refused append leaves a line that has grown",
        "oncegate.index.spilled_rows::SpilledRows.apply.undo",
        replace("at is not None and before is not None", "False"),
        f"{_ENGINE}::test_rows_refused_by_a_full_disk_are_neither_counted_nor_logged",
    ),
    one(
        "rows that were refused stay in the sum",
        "oncegate.index.spilled_rows::SpilledRows.apply.undo",
        delete("self.rows -= entry.rows"),
        f"{_ENGINE}::test_rows_refused_by_a_full_disk_are_neither_counted_nor_logged",
    ),
    one(
        "a compaction forgets that rows had waited",
        "oncegate.index.shard::ShardIndex._in_order",
        replace("spilled.restore", "bool"),
        f"{_LINES}::test_a_snapshot_has_all_lines_and_the_next_entry_continues_them",
    ),
    one(
        "a client's clock that is ahead is taken as it is",
        "oncegate.engine.usecases.produce::_spilled",
        replace("min(request.spilled.wall_ms, wall_ms)", "request.spilled.wall_ms"),
        f"{_ENGINE}::test_a_clients_clock_that_is_ahead_counts_as_now_and_a_long_name_is_cut",
    ),
    one(
        "rows without ids are taken as rows that had waited",
        "oncegate.transports.writes::produce_request",
        replace("asked.spilled is not None and found is None", "False"),
        f"{_DOORS}::test_every_door_refuses_it_of_rows_without_ids_which_a_repeat_would_count_again",
    ),
    one(
        "the owner of rows that had waited is not named",
        "oncegate.transports.incoming::admit",
        replace("principal.name", "''"),
        f"{_DOORS}::test_every_transport_counts_them_and_shows_operators_whose_they_are",
    ),
    one(
        "JSON's word that rows had waited is passed over",
        "oncegate.transports.http.routes.topics::_request_of_rows",
        replace("message.spilled_ms", "None"),
        f"{_DOORS}::test_every_transport_counts_them_and_shows_operators_whose_they_are",
    ),
    one(
        "a named batch always waits for a gateway that is down",
        "oncegate_spark.spark.writers.named::NamedBatches.begun",
        without("on_down="),
        "tests/client/spark/test_named_batches.py::test_without_the_input_or_the_gateway_the_function_is_not_called",
    ),
    one(
        "a read always waits for a gateway that is down",
        "oncegate_spark.spark.readers.options::ReadOptions.gateway",
        without("on_down="),
        "tests/spark/test_source_readers.py::test_an_unreachable_gateway_is_reported_on_the_driver",
    ),
    one(
        "a query for a source's position always waits for a gateway that is down",
        "oncegate_spark.spark.committed_offsets::committed_offsets",
        without("on_down="),
        "tests/client/spark/test_committed_offsets.py::test_a_gateway_that_is_down_is_waited_for_according_to_on_down",
    ),
    one(
        "a helper of Spark takes spill, and lays nothing down",
        "oncegate_spark.protocol.outage::check_without_rows",
        replace("(BLOCK, FAIL)", "ON_DOWN"),
        "tests/client/spark/test_committed_offsets.py::test_a_gateway_that_is_down_is_waited_for_according_to_on_down",
    ),
)
