"""More planted bugs: compacting and copies of the ledger, the clients, the source; see `planted`."""

from tests.mutants.mutant import Mutant, one
from tests.mutants.planted import CLIENT, ENGINE, INDEX, LOG

_COLLECTING = "tests/faults/ledger/test_compaction.py"
_CRASHES = "tests/faults/ledger/test_compaction_crashes.py"
_BACKUPS = "tests/faults/ledger/test_backups.py"
_READERS = "tests/spark/test_source_readers.py"

_CONTENT = "tests/transports/http/test_limits_of_content.py"
_SCAN = "tests/transports/decode/test_json_scan.py"
_GATE = "tests/transports/http/test_gate.py"
_BAD = "tests/transports/http/test_bad_input.py"
_TAKING = "tests/transports/http/test_taking.py"
_NEGOTIATION = "tests/transports/http/test_negotiation.py"
_READS = "tests/transports/http/test_deadlines_of_reads.py"

SURFACE: tuple[Mutant, ...] = (
    one(
        "header of another body passed over",
        "service/oncegate/transports/http/taking.py",
        "            if name not in taken and (name not in _ONCE or name in _RELIED_ON):\n",
        "            if name not in taken and name in _RELIED_ON:\n",
        f"{_TAKING}::test_a_header_of_packed_bodies_is_refused_beside_arrow_and_the_other_way_round",
    ),
    one(
        "parameter beside a body that says it itself",
        "service/oncegate/transports/http/taking.py",
        "            if name not in taken:\n",
        "            if False:\n",
        f"{_TAKING}::test_ids_named_beside_a_json_body_are_refused_before_anything_is_written",
    ),
    one(
        "an escape among eight bytes is passed over",
        "service/oncegate/transports/decode/json_scan.py",
        "            if not (_has_none(word, np.uint64(_QUOTE)) and _has_none(word, np.uint64(_BACKSLASH))):\n",
        "            if not _has_none(word, np.uint64(_QUOTE)):\n",
        f"{_SCAN}::test_an_escaped_quote_ends_no_string_at_any_place",
    ),
    one(
        "what closes more than it opens hides how deep it goes",
        "service/oncegate/transports/decode/json_scan.py",
        "tokens, depth = tokens + 1, max(depth - 1, 0)\n",
        "tokens, depth = tokens + 1, depth - 1\n",
        f"{_SCAN}::test_closing_what_nobody_opened_hides_no_depth",
    ),
    one(
        "a member without a name may be there twice",
        "service/oncegate/transports/decode/json_scan.py",
        "    if at:\n",
        "    if end > at:\n",
        f"{_SCAN}::test_whatever_is_written_a_doubled_member_is_refused_and_nothing_else",
    ),
    one(
        "columns that a record leaves out cost nothing",
        "service/oncegate/transports/decode/json_rows.py",
        "    columns, cells = 0, known * len(records)\n",
        "    columns, cells = 0, 0\n",
        f"{_CONTENT}::test_records_of_a_wide_topic_count_the_columns_that_they_leave_out",
    ),
    one(
        "rows are read beyond the bytes of an answer",
        "service/oncegate/transports/decode/records.py",
        "    if piece.nbytes <= size_bytes:\n",
        "    if True:\n",
        f"{_CONTENT}::test_a_read_has_as_many_bytes_as_it_may_and_goes_on_where_it_ended",
    ),
    one(
        "head brings a body",
        "service/oncegate/transports/http/app.py",
        '            has_body = is_head and message["type"] == "http.response.body"\n',
        "            has_body = False\n",
        "tests/transports/http/test_problems.py::test_head_is_answered_as_get_is_without_the_body",
    ),
    one(
        "any name is this gateway's",
        "service/oncegate/transports/http/gate.py",
        "        if name in self._names:\n",
        "        if name:\n",
        f"{_GATE}::test_a_name_that_is_not_this_gateways_is_misdirected",
    ),
    one(
        "one good head stands for all",
        "service/oncegate/transports/http/gate.py",
        "        if fields == self._let_in:\n",
        "        if self._let_in is not None:\n",
        f"{_GATE}::test_a_good_head_stands_for_no_other",
    ),
    one(
        "one good head of a route stands for all",
        "service/oncegate/transports/http/taking.py",
        '            if scope["headers"] != self._good.get(kind):\n',
        "            if kind not in self._good:\n",
        f"{_GATE}::test_a_good_head_stands_for_no_other",
    ),
    one(
        "pages of other ports are its own",
        "service/oncegate/transports/http/gate.py",
        "        if origin.lower() not in own:\n",
        "        if not origin.lower().startswith(tuple(own)):\n",
        f"{_GATE}::test_a_page_of_another_site_is_refused_and_one_of_its_own_is_not",
    ),
    one(
        "room taken by what is only announced",
        "service/oncegate/transports/incoming.py",
        "    held = Held(gateway.admission)\n",
        "    held = Held(gateway.admission)\n    held.arrived(size_bytes)\n",
        f"{_BAD}::test_bodies_that_are_announced_and_do_not_come_take_no_room_from_others",
    ),
    one(
        "a shutdown waits for half a body",
        "service/oncegate/transports/http/server/protocol.py",
        "not cycle.response_complete and cycle.more_body and not self.pipeline:\n",
        "not cycle.response_complete and False:\n",
        f"{_BAD}::test_a_half_sent_body_does_not_hold_a_shutdown",
    ),
    one(
        "member twice once escaped",
        "service/oncegate/transports/decode/json_scan.py",
        "            digest = _add_char(digest, char)\n",
        "            digest = _add_char(digest, char + 1)\n",
        f"{_TAKING}::test_a_member_that_is_there_twice_is_refused_by_name",
    ),
    one(
        "witness lags behind a collection",
        f"{LOG}/ledger.py",
        "            self._witness.pin(self._segment.end)",
        "            self._witness.see(self._segment.end)",
        f"{_CRASHES}::test_every_crash_state_of_a_collection_opens_to_before_or_after",
    ),
    one(
        "segments removed under a reader",
        f"{LOG}/files/garbage.py",
        "            if self._readers or not self.waiting:",
        "            if not self.waiting:",
        f"{_COLLECTING}::test_a_replay_under_way_keeps_what_it_reads",
    ),
    one(
        "collection names another beginning",
        f"{LOG}/opening/scan.py",
        "needed[0].previous_chain) != (",
        "compacted.previous_chain) != (",
        f"{_COLLECTING}::test_a_collection_that_names_another_beginning_is_refused",
    ),
    one(
        "index saved without what waits",
        f"{ENGINE}/maintenance/snapshotter.py",
        "        steps, position = encode(), self._group_commit.next_position - 1\n",
        "        steps, position = encode(), self._group_commit.mark.position\n",
        "tests/engine/maintenance/test_snapshotter.py",
    ),
    one(
        "refused collection forgotten",
        f"{ENGINE}/maintenance/scheduler.py",
        "        self._something_went, self.compaction_error = True, ",
        "        self.compaction_error = ",
        "tests/engine/maintenance/test_snapshotter.py::test_what_found_no_room_is_collected_a_minute_later",
    ),
    one(
        "buckets lost with the process",
        f"{INDEX}/shard.py",
        "BUCKET_MS_MAX = 3_600_000\n",
        "BUCKET_MS_MAX = 2**62\n",
        "tests/engine/maintenance/test_scheduler.py::test_a_gateway_that_is_started_every_day_forgets_all_the_same",
    ),
    one(
        "buffers that share bytes",
        "service/oncegate/transports/decode/arrow_ipc.py",
        "    if sum(length for _, length in buffers) > len(body):\n",
        "    if False:\n",
        "tests/transports/decode/test_arrow_ipc.py::test_buffers_that_share_their_bytes_are_refused",
    ),
    one(
        "restored under its old id",
        f"{LOG}/admin/restore.py",
        "ledger=os.urandom(16))",
        "ledger=copied.ledger)",
        _BACKUPS,
    ),
    one(
        "backup lets files go",
        f"{LOG}/admin/backup.py",
        "    with held(paths.outputs):",
        "    if True:",
        f"{_BACKUPS}::test_a_backup_beside_a_writer_that_drops_and_collects_is_whole",
    ),
    one(
        "marks from below a collection",
        f"{ENGINE}/commit/marks.py",
        "        if mark.position < self._compacted:",
        "        if False:",
        "tests/engine/commit/test_marks.py",
        "tests/engine/maintenance/test_snapshotter.py",
    ),
    one(
        "busy rows taken for written",
        f"{CLIENT}/protocol/calls/attempt.py",
        "rows = rows.filter(verdicts.open)",
        "rows = rows.slice(rows.num_rows)",
        "tests/client/sync/test_produce_by_id.py",
    ),
    one(
        "one call for every request",
        f"{CLIENT}/protocol/calls/attempt.py",
        "                topic, self.token, call, body, **columns",
        "                topic, self.token, 0, body, **columns",
        "tests/client/sync/test_produce_by_id.py",
    ),
    one(
        "cut reply is nothing sent",
        f"{CLIENT}/aio/pool.py",
        "sent=wire is not None",
        "sent=False",
        "tests/client/sync/test_gateway.py",
    ),
    one(
        "token made once a writer",
        f"{CLIENT}/spark/writers/ids.py",
        "gateway.attempt(token, scope_of",
        "gateway.attempt('0' * 32, scope_of",
        "tests/client/spark/test_ids_writer.py",
    ),
    one(
        "taken ids that are busy",
        f"{CLIENT}/spark/dedup.py",
        "ids, places = ids.filter(verdicts.open), places.filter(verdicts.open)",
        "ids = ids.slice(0, 0)",
        "tests/client/spark/test_dedup.py",
    ),
    one(
        "end offset inclusive",
        f"{CLIENT}/spark/readers/offsets.py",
        "Span(partition, first, min(first + slice_rows, end[partition]))",
        "Span(partition, first, min(first + slice_rows, end[partition] + 1))",
        _READERS,
    ),
    one(
        "short answer not asked again",
        f"{CLIENT}/spark/readers/fetch.py",
        "        offset = following\n",
        "        offset = span.end\n",
        _READERS,
    ),
    one(
        "trimmed rows passed over in silence",
        f"{CLIENT}/spark/readers/offsets.py",
        "    if fail_on_data_loss:\n        raise Stopped(",
        "    if fail_on_data_loss and until < 0:\n        raise Stopped(",
        _READERS,
    ),
    one(
        "a decision tells no state",
        "service/oncegate/index/table/kernels.py",
        "        answers.states[i] = state\n",
        "        answers.states[i] = _ABSENT\n",
        "tests/index/claims/test_cells.py::test_a_test_of_a_cell_reaches_just_that_cell",
    ),
    one(
        "threads share the interpreter as Python has it",
        "service/oncegate/runtime/threads.py",
        "SWITCH_INTERVAL_S = 0.001\n",
        "SWITCH_INTERVAL_S = 0.005\n",
        "tests/transports/http/test_reach.py::test_no_read_holds_the_loop",
    ),
    one(
        "a read waits for ever",
        "service/oncegate/transports/http/taking.py",
        "_checked(_reading(endpoint) if reads else endpoint, taken)",
        "_checked(endpoint, taken)",
        f"{_READS}::test_a_read_of_what_is_not_durable_yet_waits_no_longer_than_its_caller",
    ),
    one(
        "a read that nobody waits for goes on",
        "service/oncegate/engine/deadline.py",
        "            if not task.cancel() and not task.cancelled():\n",
        "            if task.done() and not task.cancelled():\n",
        f"{_READS}::test_rows_that_a_slow_disk_does_not_bring_are_given_up",
    ),
    one(
        "a read answers after its deadline",
        "service/oncegate/engine/deadline.py",
        "            if left_ms <= 0:\n",
        "            if not task.done():\n",
        f"{_READS}::test_an_old_id_that_slow_runs_tell_too_late_is_told_to_nobody",
    ),
    one(
        "the target's host is passed over",
        "service/oncegate/transports/http/server/protocol.py",
        "            self._believe_target()\n",
        "            pass\n",
        f"{_GATE}::test_a_target_in_absolute_form_says_the_host_and_the_header_counts_for_nothing",
    ),
    one(
        "a charset is passed over",
        "service/oncegate/transports/http/negotiation.py",
        'not in ("", "utf-8"):',
        'not in ("", "utf-8", charset):',
        f"{_NEGOTIATION}::test_a_body_in_another_charset_than_utf8_is_refused",
    ),
    one(
        "a body beside a read is passed over",
        "service/oncegate/transports/http/taking.py",
        "        body_length(request, wanted=False)\n",
        "",
        f"{_NEGOTIATION}::test_a_body_that_a_read_is_sent_is_refused_and_not_passed_over",
    ),
    one(
        "cleared from its end to its beginning",
        f"{ENGINE}/usecases/leftovers.py",
        "        if first is not None and last is not None and first > last:\n",
        "        if False:\n",
        "tests/engine/usecases/test_leftovers.py::"
        "test_a_span_that_ends_before_it_begins_is_a_mistake_and_no_word_that_nothing_was_left",
    ),
    one(
        "a full disk below the log",
        "service/oncegate/runtime/logging.py",
        "        with contextlib.suppress(OSError):\n            self._stream.flush()\n",
        "        self._stream.flush()\n",
        "tests/transports/http/test_serve.py::test_a_full_disk_below_the_log_ends_no_start",
    ),
)
