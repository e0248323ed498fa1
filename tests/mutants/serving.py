"""Planted bugs of the fast path through the server: frequent routes, their bodies and answers, the append."""

from tests.mutants.edits import delete, insert, replace, without
from tests.mutants.mutant import Mutant, one

HTTP = "service/oncegate/transports/http"
_FILLING = "tests/transports/http/test_filling.py"
_PAST_CACHE = "tests/faults/ledger/test_past_cache.py"
_KEYED = "tests/client/spark/test_writers.py::test_staged_rows_that_their_keys_divide_are_read_back_from_the_disk"
_FULL = "tests/engine/commit/test_full_ledger.py"
_DIRECT = "tests/transports/http/test_fast_path.py"
_CONNECTIONS = "tests/transports/http/test_connections.py"
_GATHERING = "tests/engine/usecases/test_claim_batching.py"
_REPLIES = "tests/client/sync/test_gateway.py"
_TOGETHER = "tests/index/claims/test_bulk_claim.py"

SERVING: tuple[Mutant, ...] = (
    one(
        "half a body taken for all of it",
        "oncegate.transports.http.server.fast_path::Exchange.take_body",
        replace("self.more_body or self.disconnected", "self.disconnected"),
        f"{_DIRECT}::test_a_body_that_comes_in_pieces_is_waited_for",
    ),
    one(
        "answers overtake each other",
        "oncegate.transports.http.server.protocol::Protocol.on_headers_complete",
        replace("before is None or before.response_complete", "before is exchange or before is not exchange"),
        f"{_DIRECT}::test_requests_sent_at_once_on_one_connection_are_answered_in_their_order",
    ),
    one(
        "heads that never end are waited for",
        "oncegate.transports.http.server.protocol::Protocol.connection_made",
        delete("self._rest()"),
        f"{_DIRECT}::test_a_connection_without_a_whole_head_is_closed_after_its_time",
    ),
    one(
        "an unreadable body takes the answer of the request before it",
        "oncegate.transports.http.server.protocol::Protocol._refuse",
        replace("self.pipeline or not cycle.more_body", "not cycle.more_body"),
        f"{_CONNECTIONS}::test_a_body_that_cannot_be_read_takes_no_answer_from_the_request_before_it",
    ),
    Mutant(
        "a body lost to an offer",
        (
            ("oncegate.transports.http.server.protocol::Protocol._feed", without("self.cycle.more_body")),
            (
                "oncegate.transports.http.server.protocol::Protocol._feed",
                replace("(httptools.HttpRequestParser(self), True, True)", "(httptools.HttpRequestParser(self), True)"),
            ),
        ),
        (f"{_CONNECTIONS}::test_who_offers_another_protocol_is_answered_in_this_one_body_and_all",),
    ),
    one(
        "heads without an end",
        "oncegate.transports.http.server.protocol::Protocol._wait_for_head",
        replace("self._head_bytes > HEAD_BYTES", "self._head_bytes < 0"),
        f"{_CONNECTIONS}::test_a_head_that_does_not_end_is_refused_before_it_takes_much_memory",
    ),
    one(
        "busy said before it is durable",
        "oncegate.engine.usecases.claim_batching::ClaimBatcher.decide",
        replace("bool((decision.actions == Action.BUSY).any())", "not len(decision.actions)"),
        "tests/engine/commit/test_durable_before_said.py"
        "::test_a_repeat_gets_busy_for_its_former_ids_only_once_the_takeover_is_durable",
    ),
    one(
        "another answer kept open",
        "oncegate.transports.http.server.fast_path::Exchange._write",
        delete("if not self.keep_alive:\n    ..."),
        f"{_DIRECT}::test_a_caller_that_wants_no_more_is_answered_and_let_go",
    ),
    one(
        "verdicts in each other's words",
        "oncegate.transports.http.answers::_STANDING_IN",
        replace("bytes(range(len(_ITEMS)))", "bytes(range(len(_ITEMS)))[::-1]"),
        "tests/transports/http/test_answers.py::test_many_verdicts_are_the_same_json_as_each_alone",
    ),
    one(
        "retirements are given to the claims alone",
        "oncegate.index.shard::_OF_CLAIMS",
        replace("(Claimed, Completed, Released, Taken)", "(Claimed, Completed, Released, Taken, Retired)"),
        "tests/engine/maintenance/test_scheduler.py",
    ),
    Mutant(
        "an append noted by its caller",
        (
            (
                "oncegate.ledgers.log.ledger::LogLedger._append",
                insert("self._written(bool(entries), written)", after="await asyncio.shield(written)"),
            ),
            ("oncegate.ledgers.log.ledger::LogLedger._append", delete("written.add_done_callback(...)")),
        ),
        ("tests/faults/ledger/test_cancellation.py",),
    ),
    one(
        "a save without a rest",
        "oncegate.engine.maintenance.snapshotter::Snapshotter._step",
        replace("ended_ms + SNAPSHOT_RESTS * (ended_ms - began_ms)", "ended_ms"),
        "tests/engine/maintenance/test_snapshot_under_load.py::test_a_step_of_saving_is_followed_by_three_times_as_long_for_requests",
    ),
    one(
        "a claim that waits for others without end",
        "oncegate.engine.usecases.claim_batching::ClaimBatcher._turn",
        replace("is_more and self._journal.clock.monotonic_ms() - self._since_ms <= WAIT_MS", "is_more"),
        f"{_GATHERING}::test_no_claim_waits_longer_than_that",
    ),
    Mutant(
        "one request's answers are the next one's",
        (
            ("oncegate.engine.usecases.claim_batching::ClaimBatcher._answer", replace("(at, first)", "at")),
            (
                "oncegate.engine.usecases.claim_batching::ClaimBatcher._answer",
                replace("(slice(first, end), end)", "slice(first, end)"),
            ),
        ),
        (f"{_GATHERING}::test_an_id_that_two_of_them_name_goes_to_the_first",),
    ),
    one(
        "taken over claim_batch",
        "oncegate.index.table.kernels::claim_each",
        replace("rests_on if taken == 0 else -1", "rests_on"),
        _TOGETHER,
    ),
    one(
        "all asked for is granted",
        "oncegate.index.claims.decide::_entries",
        delete("claim = replace(claim, fresh=raw[16 * first:16 * end])"),
        _TOGETHER,
    ),
    one(
        "the first position for all",
        "oncegate.index.table.kernels::claim_each",
        replace("position + 1", "position"),
        _TOGETHER,
    ),
    one(
        "one call granted twice",
        "oncegate.engine.usecases.claim_batching::ClaimBatcher._first_calls",
        replace(
            ("call not in calls and (not is_repeat(self._store, *call, now_ms)) and (left_ms is None or left_ms > 0)"),
            "not is_repeat(self._store, *call, now_ms) and (left_ms is None or left_ms > 0)",
        ),
        f"{_GATHERING}::test_a_call_that_is_there_twice_is_granted_once",
    ),
    one(
        "granted claim_batch, said at once",
        "oncegate.engine.usecases.claim_batching::ClaimBatcher._answer",
        replace("group_commit.wait(rests_on, one.waiter, one.span)", "one.waiter.set_result(None)"),
        f"{_GATHERING}::test_nothing_is_answered_before_it_is_durable",
    ),
    one(
        "taken back oldest first",
        "oncegate.index.claims.decide::ClaimBatch.undo",
        replace("range(len(self.rows) - 1, -1, -1)", "range(len(self.rows))"),
        f"{_GATHERING}::test_a_full_ledger_takes_all_of_them_back",
    ),
    one(
        "a lease from the beginning of time",
        "oncegate.index.claims.decide::_take_all",
        replace("now_ms + lease_ms", "lease_ms"),
        _TOGETHER,
    ),
    one(
        "the row of a dead slot let go of",
        "oncegate.index.claims.decide::claim_many",
        replace("grants.previous[grants.previous != NO_ROW]", "grants.previous[:0]"),
        _TOGETHER,
    ),
    one(
        "a namespace that stays down has a code of its own",
        "oncegate.engine.gateway::_refusal",
        replace("type(cause)", "Recovering"),
        "tests/engine/recovery/test_unknown_end.py::test_a_ledger_that_must_not_serve_stays_down",
    ),
    one(
        "a head that broke off is a reply",
        "oncegate_spark.sync.connection::Response._begin",
        replace("lines.last not in (b'\\r\\n', b'\\n')", "lines.last is None"),
        f"{_REPLIES}::test_half_a_head_is_no_answer",
    ),
    one(
        "an interim reply is the reply, and the next call reads the real one",
        "oncegate_spark.sync.connection::Response.begin",
        replace("http.client.OK", "102"),
        f"{_REPLIES}::test_an_interim_reply_is_no_answer_and_leaves_none_to_the_next_call",
    ),
    one(
        "an interim reply is the reply for asyncio",
        "oncegate_spark.aio.pool::Reading._pass_interim",
        replace("_INTERIM.match(self._data)", "self._body_at < 0"),
        f"{_REPLIES}::test_an_interim_reply_is_no_answer_and_leaves_none_to_the_next_call",
    ),
    one(
        "an intermediate proxy's page is reported as done",
        "oncegate_spark.protocol.calls.steps::nothing_of",
        replace("'html' in reply.headers.get('content-type', '')", "'xhtml' in reply.headers.get('content-type', '')"),
        f"{_REPLIES}::test_an_intermediate_proxys_page_is_not_taken_for_success",
    ),
    one(
        "a text about the effect is repeated in an error",
        "oncegate_spark.protocol.effort::_unsaid",
        replace("_WRITTEN.sub('', str(text))", "str(text)"),
        "tests/client/protocol/test_effort.py",
    ),
    one(
        "a complete is refused while the disk is full",
        "oncegate.engine.usecases.claims::Claims._write",
        without("ends="),
        f"{_FULL}::test_completes_and_releases_are_written_into_the_room_that_is_kept_for_them",
    ),
    one(
        "sequences are refused their end while the disk is full",
        "oncegate.engine.usecases.producers::Producers.settle",
        without("ends="),
        f"{_FULL}::test_sequences_too_are_completed_while_full",
    ),
    one(
        "a probe takes what is kept",
        "oncegate.engine.commit.group_commit::GroupCommit._probe",
        replace("self.ending() is None and self.room.measure()", "self.ending() is None"),
        f"{_FULL}::test_nothing_is_probed_while_only_reserved_room_is_left",
    ),
    one(
        "room that is kept and never given back",
        "oncegate.ledgers.log.writer::LogWriter.write",
        delete("self._reserve.release()"),
        "tests/faults/server/test_full_disk.py",
    ),
    one(
        "a stop waits for who takes nothing",
        "oncegate.transports.http.server.closing::cut_off",
        replace("size_bytes and looks >= looks_max", "False"),
        f"{_CONNECTIONS}::test_a_caller_that_takes_no_answers_does_not_hold_a_shutdown",
    ),
    one(
        "a stop cuts off who takes its answer slowly",
        "oncegate.transports.http.server.closing::_unread",
        replace("known is not None and known[0] == size_bytes", "known is not None"),
        f"{_CONNECTIONS}::test_a_caller_that_takes_its_answer_slowly_gets_it_whole_while_the_server_stops",
    ),
    one(
        "bytes that the kernel keeps are not among those that wait to be read",
        "oncegate.transports.http.server.closing::_unread",
        delete("size_bytes += int.from_bytes(queued, sys.byteorder)"),
        f"{_CONNECTIONS}::test_a_caller_that_takes_less_than_the_kernel_makes_room_for_is_seen_to_read",
    ),
    one(
        "a new namespace takes the room that is kept",
        "oncegate.ledgers.log.ledgers::LogLedgers.create",
        delete("self._require_room()"),
        "tests/faults/ledger/test_reserve.py",
    ),
    one(
        "room that the reserve holds already counts as missing",
        "oncegate.ledgers.log.reserve::Reserve._missing_bytes",
        replace("stat.f_bavail * stat.f_frsize + self._held_bytes()", "stat.f_bavail * stat.f_frsize"),
        "tests/faults/ledger/test_reserve.py",
    ),
    one(
        "a full disk is reported with the room that was missing first",
        "oncegate.engine.commit.room::Room.measure",
        replace("1 - free_bytes", "self._missing_bytes or 1 - free_bytes"),
        f"{_FULL}::test_a_full_disk_reports_the_missing_room_as_of_its_last_probe",
    ),
    one(
        "a connection that ends with a large body",
        "oncegate.transports.http.server.filling::Filling.buffer_updated",
        delete("self._wire.parser = httptools.HttpRequestParser(self._wire)"),
        f"{_FILLING}::test_a_connection_continues_after_such_a_body_with_the_later_requests",
    ),
    one(
        "a part of a large body taken for all of it",
        "oncegate.transports.http.server.filling::Filling.connection_lost",
        replace("self._end(False)", "self._end(True)"),
        f"{_FILLING}::test_a_caller_that_goes_away_in_such_a_body_leaves_nothing_behind",
    ),
    one(
        "a refused body that is forgotten by the parser",
        "oncegate.transports.http.server.filling::Filling.stop",
        delete("self._wire.data_received(...)"),
        f"{_FILLING}::test_such_a_body_is_refused_without_room_for_more_and_the_connection_continues",
    ),
    one(
        "a range's last bytes lost past the page cache",
        "oncegate.ledgers.disk::_written_whole",
        delete("last[:len(data) - whole] = data[whole:]"),
        f"{_PAST_CACHE}::test_a_large_range_is_read_back_and_its_surroundings_are_unchanged",
    ),
    one(
        "a part of a range taken for all of it",
        "oncegate.ledgers.disk::_written_whole",
        replace("os.pwritev(fd, parts, offset) == padded(len(data))", "os.pwritev(fd, parts, offset) > 0"),
        f"{_PAST_CACHE}::test_partial_and_missing_writes_are_repeated",
    ),
    one(
        "a part of a chunk known by the digest of all of it",
        "oncegate.engine.usecases.batches::Batches._store",
        replace("request.sha256 if share.data is rows.data else None", "request.sha256"),
        _KEYED,
    ),
    one(
        "the bytes under a null are fingerprinted",
        "oncegate.hashing.kernels::put_cells",
        replace("width + 1", "1"),
        "tests/hashing/test_kernels.py::test_cells_are_a_flag_and_a_value_or_zeros_under_a_null",
    ),
    one(
        "an error of Spark's rows before the end of what was sent",
        "oncegate_spark.spark.writers.common::pipelined",
        insert("if failed is not None:\n    raise failed", after="following, failed = _next(made)"),
        "tests/client/spark/test_pipelined.py::test_an_error_of_the_items_comes_after_all_that_was_made_of_those_before",
    ),
)
