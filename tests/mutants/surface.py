"""More planted bugs: compaction and copies of the ledger, the clients, the source; see `planted`."""

from tests.mutants.edits import delete, insert, replace, replace_statement, without
from tests.mutants.mutant import Mutant, one

_COLLECTING = "tests/faults/ledger/test_compaction.py"
_CRASHES = "tests/faults/ledger/test_compaction_crashes.py"
_BACKUPS = "tests/faults/ledger/test_backups.py"
_READERS = "tests/spark/test_source_readers.py"

_CONTENT = "tests/transports/http/test_limits_of_content.py"
_SCAN = "tests/transports/decode/test_json_scan.py"
_LIBRARY_LOG = "tests/transports/traces/test_logs.py::test_a_library_logs_in_the_form_of_the_gateway"
_GATE = "tests/transports/http/test_gate.py"
_BAD = "tests/transports/http/test_bad_input.py"
_TAKING = "tests/transports/http/test_taking.py"
_NEGOTIATION = "tests/transports/http/test_negotiation.py"
_READS = "tests/transports/http/test_deadlines_of_reads.py"

SURFACE: tuple[Mutant, ...] = (
    one(
        "the error about copying a ledger elsewhere suggests serving it",
        "oncegate.cli.refusals::refuse_urls",
        replace(
            "_COPIES.get(context.info_name or '', '`oncegate serve --ledger` takes those')",
            "'`oncegate serve --ledger` takes those'",
        ),
        "tests/cli/test_verbs.py::test_the_url_of_a_ledger_is_no_data_folder",
    ),
    one(
        "a client warns of a gateway that is down at each try",
        "oncegate_spark.protocol.outage::Outage._refused",
        replace("now_ms - self._said_ms < SAY_EACH_MS", "False"),
        "tests/client/protocol/test_outage.py",
    ),
    one(
        "a workers' Python without the package is taken",
        "oncegate_spark.spark.pickling::_check_python",
        replace("done.returncode == _LACKING", "False"),
        "tests/client/spark/test_pickling.py",
    ),
    one(
        "header of another body passed over",
        "oncegate.transports.http.parameters::Parameters._check_headers",
        replace("name not in _ONCE or name in _RELIED_ON", "name in _RELIED_ON"),
        f"{_TAKING}::test_a_header_of_packed_bodies_is_refused_beside_arrow_and_the_other_way_round",
    ),
    one(
        "a parameter is accepted beside a body that contains it",
        "oncegate.transports.http.parameters::Parameters._checked_query",
        replace("name not in taken", "False"),
        f"{_TAKING}::test_ids_named_beside_a_json_body_are_refused_before_anything_is_written",
    ),
    one(
        "an escape among eight bytes is passed over",
        "oncegate.transports.decode.json_scan::_end_of_string",
        replace(
            "_has_none(word, np.uint64(_QUOTE)) and _has_none(word, np.uint64(_BACKSLASH))",
            "_has_none(word, np.uint64(_QUOTE))",
        ),
        f"{_SCAN}::test_an_escaped_quote_ends_no_string_at_any_place",
    ),
    one(
        "what closes more than it opens hides how deep it goes",
        "oncegate.transports.decode.json_scan::_count",
        replace("max(depth - 1, 0)", "depth - 1"),
        f"{_SCAN}::test_unmatched_closing_brackets_hide_no_depth",
    ),
    one(
        "a member without a name may be there twice",
        "oncegate.transports.decode.json_scan::check",
        replace_statement(
            "if at:\n    ...",
            (
                "if end > at:\n"
                "    name = body[at:min(end, at + 80)].decode('utf-8', 'replace')\n"
                '    raise BadRequest(f\'the JSON member "{name}" is there twice in one object; '
                "nothing was written')"
            ),
        ),
        f"{_SCAN}::test_whatever_is_written_a_doubled_member_is_refused_and_nothing_else",
    ),
    one(
        "columns that a record leaves out cost nothing",
        "oncegate.transports.decode.json_rows::check_shape",
        replace("known * len(records)", "0"),
        f"{_CONTENT}::test_records_of_a_wide_topic_count_the_columns_that_they_leave_out",
    ),
    one(
        "rows are read beyond the bytes of an answer",
        "oncegate.transports.decode.records::_within",
        replace("piece.nbytes <= size_bytes", "True"),
        f"{_CONTENT}::test_a_read_has_as_many_bytes_as_it_may_and_continues_where_it_ended",
    ),
    one(
        "a type without a body excuses what is not taken",
        "oncegate.transports.http.parameters::Parameters.__init__",
        replace("'' if '' in kinds else None", "None"),
        f"{_TAKING}::test_unknown_fields_are_refused_beside_a_type_without_a_body",
    ),
    one(
        "every parameter is for every body",
        "oncegate.transports.http.openapi.document::_is_for",
        replace("kind in parameter.get(BODIES, (kind,))", "True"),
        "tests/transports/http/test_openapi.py::test_a_committed_file_that_is_made_from_code_is_fresh",
    ),
    one(
        "an offer of another protocol goes past the framework",
        "oncegate.transports.http.server.protocol::Protocol._exchange",
        replace("parser.should_upgrade()", "False"),
        "tests/transports/http/test_fast_path.py"
        "::test_requests_of_every_route_go_past_the_framework_but_those_that_are_not_plain",
    ),
    one(
        "an expectation goes past the framework",
        "oncegate.transports.http.server.protocol::Protocol._exchange",
        replace("self.expect_100_continue", "False"),
        "tests/transports/http/test_fast_path.py"
        "::test_requests_of_every_route_go_past_the_framework_but_those_that_are_not_plain",
    ),
    one(
        "head brings a body",
        "oncegate.transports.http.app::Door._answer",
        delete("if is_head:\n    ..."),
        "tests/transports/http/test_problems.py::test_head_is_answered_as_get_is_without_the_body",
    ),
    one(
        "any name is this gateway's",
        "oncegate.transports.http.parameters::Gate._of_host",
        replace("name in self._names", "name"),
        f"{_GATE}::test_a_name_that_is_not_this_gateways_is_misdirected",
    ),
    one(
        "one accepted head counts for all",
        "oncegate.transports.http.parameters::Gate.refusal",
        replace("fields == self._let_in", "self._let_in is not None"),
        f"{_GATE}::test_a_good_head_vouches_for_no_other",
    ),
    one(
        "one valid head of a route counts for every head",
        "oncegate.transports.http.parameters::Parameters.checked",
        replace("fields != self._good.get(kind)", "kind not in self._good"),
        f"{_GATE}::test_a_good_head_vouches_for_no_other",
    ),
    one(
        "pages of other ports are its own",
        "oncegate.transports.http.parameters::_of_origin",
        replace("origin.lower() not in own", "not origin.lower().startswith(tuple(own))"),
        f"{_GATE}::test_a_page_of_another_site_is_refused_and_one_of_its_own_is_not",
    ),
    one(
        "room taken by what is only announced",
        "oncegate.transports.incoming::admit",
        insert("room.arrived(size_bytes)", after="room = BodyRoom(admission)"),
        f"{_BAD}::test_bodies_that_are_announced_and_do_not_come_take_no_room_from_others",
    ),
    one(
        "a shutdown waits for half a body",
        "oncegate.transports.http.server.protocol::Protocol.shutdown",
        replace(
            ("cycle is not None and (not cycle.response_complete) and cycle.more_body and (not self.pipeline)"),
            "cycle is not None and (not cycle.response_complete) and False",
        ),
        f"{_BAD}::test_a_half_sent_body_does_not_hold_a_shutdown",
    ),
    one(
        "member twice once escaped",
        "oncegate.transports.decode.json_scan::_digest",
        replace("_add_char(digest, char)", "_add_char(digest, char + 1)"),
        f"{_TAKING}::test_a_member_that_is_there_twice_is_refused_by_name",
    ),
    one(
        "a collection does not pin the witness",
        "oncegate.ledgers.log.writer::LogWriter.write_compacted",
        replace("self.witness.pin", "self.witness.see"),
        f"{_CRASHES}::test_every_crash_state_of_a_collection_opens_to_before_or_after",
    ),
    one(
        "segments removed under a reader",
        "oncegate.ledgers.log.files.garbage::Garbage.run",
        replace("self._readers or not self.waiting", "not self.waiting"),
        f"{_COLLECTING}::test_a_replay_under_way_keeps_what_it_reads",
    ),
    one(
        "collection names another beginning",
        "oncegate.ledgers.log.opening.scan::Scan._needed",
        replace("needed[0].previous_chain", "compacted.previous_chain"),
        f"{_COLLECTING}::test_a_collection_that_names_another_beginning_is_refused",
    ),
    one(
        "index saved without what waits",
        "oncegate.engine.maintenance.snapshotter::Snapshotter._begin",
        replace("self._group_commit.next_position - 1", "self._group_commit.mark.position"),
        "tests/engine/maintenance/test_snapshotter.py",
    ),
    one(
        "refused collection forgotten",
        "oncegate.engine.maintenance.scheduler::Scheduler._compacted",
        replace(
            "self._journal.clock.monotonic_ms() + COMPACT_AGAIN_MS", "self._journal.clock.monotonic_ms() + (1 << 60)"
        ),
        "tests/engine/maintenance/test_snapshotter.py::test_what_found_no_room_is_collected_a_minute_later",
    ),
    one(
        "buckets lost with the process",
        "oncegate.index.settings::BUCKET_MS_MAX",
        replace("3600000", "2 ** 62"),
        "tests/engine/maintenance/test_scheduler.py::test_a_gateway_that_is_started_every_day_forgets_all_the_same",
    ),
    one(
        "buffers that share bytes",
        "oncegate.transports.decode.arrow_ipc::_announced",
        replace("sum((length for _, length in buffers)) > len(body)", "False"),
        "tests/transports/decode/test_arrow_ipc.py::test_buffers_that_share_their_bytes_are_refused",
    ),
    one(
        "restored under its old id",
        "oncegate.ledgers.log.admin.restore::_restore",
        replace("os.urandom(16)", "copied.ledger"),
        _BACKUPS,
    ),
    one(
        "backup lets files go",
        "oncegate.ledgers.log.admin.backup::_backup",
        replace_statement(
            "with held(paths.outputs):\n    ...",
            (
                "if True:\n"
                "    seen = read_witness(disk, paths.witness)\n"
                "    at = (seen.end.segment, seen.end.offset)\n"
                "    walk = Walk(disk, paths.shard, first_segment=seen.end.segment, "
                "watched=frozenset({at}))\n"
                "    for _ in walk:\n"
                "        pass\n"
                "    require_witnessed(paths, walk, seen)\n"
                "    copy_ledger(disk, paths, walk.end, target)"
            ),
        ),
        f"{_BACKUPS}::test_a_backup_beside_a_writer_that_drops_and_collects_is_whole",
    ),
    one(
        "marks from below a collection",
        "oncegate.engine.commit.marks::Marks.require",
        replace("mark.position < self._compacted", "False"),
        "tests/engine/commit/test_marks.py",
        "tests/engine/maintenance/test_snapshotter.py",
    ),
    one(
        "busy rows taken for written",
        "oncegate_spark.protocol.calls.attempt::AttemptCalls._settled",
        replace("rows.filter(verdicts.open)", "rows.slice(rows.num_rows)"),
        "tests/client/sync/test_produce_by_id.py",
    ),
    one(
        "one call for every request",
        "oncegate_spark.protocol.calls.attempt::AttemptCalls._request",
        replace("self.next_call()", "0"),
        "tests/client/sync/test_produce_by_id.py",
    ),
    one(
        "cut reply is nothing sent",
        "oncegate_spark.aio.pool::Pool._exchange",
        replace("WireFailure.of(error, sent=wire is not None)", "WireFailure.of(error, sent=False)"),
        "tests/client/sync/test_gateway.py",
    ),
    one(
        "token made once a writer",
        "oncegate_spark.spark.writers.ids::IdsWriter._by_id",
        replace("token", "'0' * 32"),
        "tests/client/spark/test_ids_writer.py",
    ),
    Mutant(
        "taken ids that are busy",
        (
            ("oncegate_spark.spark.dedup::taken", replace("(ids, rows)", "ids")),
            (
                "oncegate_spark.spark.dedup::taken",
                replace("(ids.filter(verdicts.open), rows.filter(verdicts.open))", "ids.slice(0, 0)"),
            ),
        ),
        ("tests/client/spark/test_dedup.py",),
    ),
    one(
        "end offset inclusive",
        "oncegate_spark.spark.readers.offsets::slices",
        replace("min(first + slice_rows, end[partition])", "min(first + slice_rows, end[partition] + 1)"),
        _READERS,
    ),
    one(
        "short answer not asked again",
        "oncegate_spark.spark.readers.common::rows_of",
        replace_statement("offset = following", "offset = span.end"),
        _READERS,
    ),
    one(
        "trimmed rows passed over in silence",
        "oncegate_spark.spark.readers.offsets::first_kept",
        replace("fail_on_data_loss", "fail_on_data_loss and until < 0"),
        _READERS,
    ),
    one(
        "a decision omits the state",
        "oncegate.index.table.kernels::decide",
        replace_statement("answers.states[i] = state", "answers.states[i] = _ABSENT"),
        "tests/index/claims/test_cells.py::test_a_test_of_a_cell_reaches_just_that_cell",
    ),
    one(
        "threads share the interpreter as Python has it",
        "oncegate.runtime.process::SWITCH_INTERVAL_S",
        replace("0.001", "0.005"),
        "tests/transports/http/test_reach.py::test_no_read_holds_the_loop",
    ),
    one(
        "a read waits for ever",
        "oncegate.transports.http.routing::respond",
        replace("work if deadline is None else deadline.reading(work)", "work"),
        f"{_READS}::test_a_read_of_what_is_not_durable_yet_waits_no_longer_than_its_caller",
    ),
    one(
        "a read whose caller has left continues",
        "oncegate.engine.deadline::Deadline.reading",
        replace("not task.cancel()", "task.done()"),
        f"{_READS}::test_rows_that_a_slow_disk_does_not_bring_are_given_up",
    ),
    one(
        "a read answers after its deadline",
        "oncegate.engine.deadline::Deadline.reading",
        replace("left_ms <= 0", "not task.done()"),
        f"{_READS}::test_an_old_id_reported_too_late_by_slow_runs_is_not_answered",
    ),
    one(
        "the target's host is passed over",
        "oncegate.transports.http.server.protocol::Protocol.on_headers_complete",
        delete("self._believe_target()"),
        f"{_GATE}::test_a_target_in_absolute_form_gives_the_host_and_the_header_is_ignored",
    ),
    one(
        "a charset is passed over",
        "oncegate.transports.http.parameters::content_type",
        replace("('', 'utf-8')", "('', 'utf-8', charset)"),
        f"{_NEGOTIATION}::test_a_body_in_another_charset_than_utf8_is_refused",
    ),
    one(
        "a body beside a read is passed over",
        "oncegate.transports.http.routing::respond",
        delete("body_length(...)"),
        f"{_NEGOTIATION}::test_a_body_that_a_read_is_sent_is_refused_and_not_passed_over",
    ),
    one(
        "cleared from its end to its beginning",
        "oncegate.engine.usecases.operations.leftovers::Leftovers.of_producer",
        replace("first is not None and last is not None and (first > last)", "False"),
        "tests/engine/usecases/test_leftovers.py::"
        "test_a_span_that_ends_before_it_begins_is_a_mistake_and_no_word_that_nothing_was_left",
    ),
    one(
        "a list of columns that names none is none at all",
        "oncegate.transports.decode.columns::split_names",
        insert("names = [name for name in names if name]", before="if '' in names:\n    ..."),
        "tests/transports/http/test_topics.py",
    ),
    one(
        "numbers inside of lists stay numbers",
        "oncegate.transports.http.int64::_of_type",
        replace("is_list(kind)", "types.is_large_list(kind)"),
        "tests/transports/http/test_int64.py",
    ),
    one(
        "numbers in rows are returned as numbers",
        "oncegate.transports.http.answers::records_json",
        replace("of_columns(window.schema) if with_texts else None", "None"),
        "tests/transports/http/test_int64.py",
    ),
    one(
        "the log of a bug has the variables, keys among them",
        "oncegate.runtime.logging::_TRACEBACKS",
        without("show_locals="),
        "tests/transports/traces/test_logs.py::test_a_traceback_of_a_bug_shows_where_and_not_what_variables_held",
    ),
    one(
        "lines of JSON lack the instance and the version",
        "oncegate.runtime.logging::open_log",
        replace("log.bind(instance=instance(), version=oncegate.__version__)", "log"),
        "tests/transports/http/test_serve.py::test_the_port_file_is_written_when_ready_and_an_old_one_is_not_left",
    ),
    one(
        "a line of text repeats the fields of its message",
        "oncegate.runtime.logging::_message_only",
        replace("'message' not in event", "True"),
        _LIBRARY_LOG,
    ),
    one(
        "each failed attempt of aiokafka is logged",
        "oncegate.runtime.logging::LibraryLog.emit",
        replace("record.name.startswith('aiokafka')", "False"),
        _LIBRARY_LOG,
    ),
    one(
        "a library's records below a warning are logged",
        "oncegate.runtime.logging::LibraryLog.__init__",
        replace("logging.WARNING", "logging.INFO"),
        _LIBRARY_LOG,
    ),
    one(
        "errors of a library are warnings",
        "oncegate.runtime.logging::LibraryLog.emit",
        replace("record.levelno >= logging.ERROR", "False"),
        _LIBRARY_LOG,
    ),
    one(
        "a verb that is terminated leaves what it has half made",
        "oncegate.__main__::main",
        delete("signal.signal(...)"),
        "tests/cli/test_start.py::test_a_verb_that_a_signal_ends_takes_back_what_it_has_half_made",
    ),
    one(
        "a full disk below the log",
        "oncegate.runtime.logging::Lossy.flush",
        replace_statement("with contextlib.suppress(OSError):\n    ...", "self._stream.flush()"),
        "tests/transports/http/test_serve.py::test_a_full_disk_below_the_log_ends_no_start",
    ),
)
