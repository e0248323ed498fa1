"""Planted bugs of a gateway's limits: unread answers, probes beside connections, overload."""

from tests.mutants.edits import delete, replace, replace_statement, shift, without
from tests.mutants.mutant import Mutant, one

HTTP, GRPC = "service/oncegate/transports/http", "service/oncegate/transports/grpc"
_ADMISSION = "tests/engine/test_admission.py"
_UNREAD = "tests/transports/http/test_unread_answers.py"
_UNREAD_CALLS = "tests/transports/grpc/test_unread_answers.py"
_PROBES = "tests/transports/http/test_probes.py"
_ARRIVE = "tests/transports/http/test_refusals_arrive.py"
_OVERLOAD = "tests/transports/http/test_overload.py"
_ACCEPTOR = "tests/transports/http/test_acceptor.py"
_SHEDDING = "tests/transports/http/test_shedding.py"
_LEFT = f"{_SHEDDING}::test_requests_that_are_not_plainly_refused_are_left_to_the_usual_way"
_READ_BEFORE = f"{_SHEDDING}::test_a_request_that_is_read_before_its_connection_is_made_is_answered_as_any_other"
_INCOMING, _INCOMING_FILE = "tests/transports/test_incoming.py", "service/oncegate/transports/incoming.py"

OVERLOAD: tuple[Mutant, ...] = (
    one(
        "a caller's share of answers ends a byte late",
        "oncegate.engine.admission::Answers.fits",
        replace("self._limit_bytes // ANSWER_SHARES", "self._limit_bytes // ANSWER_SHARES + 1"),
        f"{_ADMISSION}::test_one_caller_has_an_eighth_of_the_room_for_answers_and_a_first_answer_of_any_size",
    ),
    one(
        "all callers' answers count against each caller",
        "oncegate.engine.admission::Answers.fits",
        replace("self._of.get(caller, 0)", "sum(self._of.values())"),
        f"{_ADMISSION}::test_one_caller_has_an_eighth_of_the_room_for_answers_and_a_first_answer_of_any_size",
    ),
    one(
        "answers have room of their own beside bodies",
        "oncegate.engine.admission::Answers.count",
        delete("self._admission.size_bytes += size_bytes"),
        f"{_ADMISSION}::test_bodies_and_answers_share_the_room",
    ),
    one(
        "the first that waits for room keeps the others waiting",
        "oncegate.engine.admission::Answers._go_on",
        replace_statement(
            "if not turn.done() and self.fits(caller, size_bytes):\n    ...",
            (
                "if not self.fits(caller, size_bytes):\n"
                "    return\n"
                "if not turn.done():\n"
                "    turn.set_result(self.hold(caller, size_bytes))"
            ),
        ),
        f"{_ADMISSION}::test_a_caller_that_waits_for_room_continues_when_there_is_some_and_keeps_no_other_caller_waiting",
    ),
    one(
        "room of an answer that is dropped is lost",
        "oncegate.engine.admission::Room.__del__",
        delete("if self.size_bytes:\n    ..."),
        f"{_ADMISSION}::test_room_of_an_answer_that_is_dropped_is_given_back",
    ),
    one(
        "a small request is refused for answers that are not read",
        "oncegate.engine.admission::Answers.check",
        shift("size_bytes > SMALL_ANSWER_BYTES"),
        f"{_ADMISSION}::test_a_request_with_a_large_body_is_refused_while_its_caller_reads_nothing_and_a_small_one_is_not",
    ),
    one(
        "what waits in a connection is not counted",
        "oncegate.transports.http.server.protocol::Protocol.pause_writing",
        replace("self._unread is None", "self._unread is not None"),
        f"{_UNREAD}::test_what_follows_an_answer_that_is_not_read_is_not_begun",
    ),
    one(
        "bytes that were read stay counted",
        "oncegate.transports.http.server.protocol::Protocol.resume_writing",
        delete("self._taken()"),
        f"{_UNREAD}::test_what_follows_an_answer_that_is_not_read_is_not_begun",
    ),
    one(
        "requests are answered behind an answer that is not read",
        "oncegate.transports.http.server.protocol::Protocol._start_asgi_task",
        replace("self.flow.write_paused", "False"),
        f"{_UNREAD}::test_what_follows_an_answer_that_is_not_read_is_not_begun",
    ),
    one(
        "who takes no byte is waited for",
        "oncegate.transports.http.server.protocol::HttpServer.on_tick",
        replace("closing.cut_off(self._unread, self._unread_looks)", "closing.cut_off({}, self._unread_looks)"),
        f"{_UNREAD}::test_a_reader_that_takes_no_byte_is_cut_off_and_its_room_is_given_back",
    ),
    one(
        "a page is made for a reader that has gone",
        "oncegate.transports.http.routing::_unless_gone",
        replace(
            "asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)",
            "asyncio.wait((task,), return_when=asyncio.FIRST_COMPLETED)",
        ),
        f"{_UNREAD}::test_a_read_whose_caller_has_gone_is_not_made",
    ),
    one(
        "a page continues past its end",
        "oncegate.transports.decode.records::read",
        replace("is_full or not found or page_bytes <= 0", "is_full or not found"),
        f"{_UNREAD}::test_a_page_ends_at_its_size_and_rows_written_together_come_as_one_page_of_arrow",
    ),
    one(
        "answers over gRPC are not counted",
        "oncegate.transports.grpc.calls::_answered",
        replace(
            "(size_bytes := found.ByteSize()) > SMALL_ANSWER_BYTES",
            "(size_bytes := found.ByteSize()) > SMALL_ANSWER_BYTES << 20",
        ),
        f"{_UNREAD_CALLS}::test_answers_that_a_peer_does_not_take_are_counted_and_given_back_when_it_goes",
    ),
    one(
        "a large call is let in whatever its caller has not read",
        "oncegate.transports.incoming::admit",
        delete("admission.answers.check(...)"),
        f"{_UNREAD_CALLS}::test_large_calls_are_refused_while_their_caller_takes_no_answers_and_small_ones_are_not",
    ),
    one(
        "probes are refused once others hold their port",
        "oncegate.transports.http.server.probes::ProbeProtocol.connection_made",
        shift("len(self.connections) >= self.connections_max"),
        f"{_PROBES}::test_one_connection_more_than_there_may_be_ends_the_oldest_that_is_idle",
    ),
    one(
        "the newest connection of a probe is ended for another",
        "oncegate.transports.http.server.probes::ProbeProtocol.connection_made",
        replace("min(self.connections, key=_order)", "max(self.connections, key=_order)"),
        f"{_PROBES}::test_one_connection_more_than_there_may_be_ends_the_oldest_that_is_idle",
    ),
    one(
        "the port of probes answers everything",
        "oncegate.transports.http.server.probes::Probes.__call__",
        replace("scope['path'] in PATHS", "scope['path']"),
        f"{_PROBES}::test_probes_are_answered_there_and_nothing_else_is",
    ),
    one(
        "descriptors of probes are given to connections",
        "oncegate.runtime.process::shared_out",
        replace("limit - AT_REST - kept", "limit - AT_REST"),
        "tests/faults/server/test_descriptors.py::test_the_shares_together_are_below_the_limit",
    ),
    one(
        "gRPC speaks TLS 1.2",
        "oncegate.transports.grpc",
        delete("os.environ['GRPC_SSL_CIPHER_SUITES'] = 'ECDHE-PSK-CHACHA20-POLY1305'"),
        "tests/transports/test_tls.py::test_http_and_grpc_speak_tls_1_3_alone_and_no_session_continues_in_a_later_connection",
    ),
    one(
        "a session over gRPC continues in a later connection",
        "oncegate.transports.grpc.server::_secured",
        replace(
            "grpc.dynamic_ssl_server_credentials(newest(), newest, tls.asks_callers)",
            "grpc.dynamic_ssl_server_credentials(newest(), lambda: None, tls.asks_callers)",
        ),
        "tests/transports/test_tls.py::test_http_and_grpc_speak_tls_1_3_alone_and_no_session_continues_in_a_later_connection",
    ),
    one(
        "a refusal is followed by a reset",
        "oncegate.transports.http.server.protocol::Protocol._close",
        replace("self.cycle is not None and self.cycle.more_body or self.pipeline or self._goes_on", "False"),
        f"{_ARRIVE}::test_who_is_refused_before_its_body_has_come_gets_the_refusal_and_no_reset",
    ),
    one(
        "who connects beyond the limit is answered before it has asked",
        "oncegate.transports.http.server.protocol::Protocol.connection_made",
        replace_statement(
            "self._lingering = self.loop.call_later(closing.LINGER_S, transport.abort)", "self._refuse(self._full)"
        ),
        f"{_ARRIVE}::test_a_connection_beyond_the_limit_gets_its_refusal_after_its_request",
    ),
    one(
        "a refused connection is kept until its caller closes it",
        "oncegate.transports.http.server.closing::linger",
        replace("LINGER_S", "1000 * LINGER_S"),
        f"{_ARRIVE}::test_who_does_not_close_after_a_refusal_is_cut_off",
    ),
    one(
        "the wait for others is counted as 0",
        "oncegate.engine.admission::Admission.queue",
        replace("backlog.wait_ms", "0"),
        f"{_ADMISSION}::test_without_a_deadline_a_request_waits_for_15_ms_or_behind_fewer_than_12_others",
        f"{_OVERLOAD}::test_callers_beyond_what_can_be_answered_in_time_are_refused_at_once_and_each_is_answered",
    ),
    one(
        "who would wait for 50 ms is refused",
        "oncegate.engine.admission::Admission.queue",
        shift("wait_ms <= QUEUE_MS"),
        f"{_ADMISSION}::test_without_a_deadline_a_request_waits_for_15_ms_or_behind_fewer_than_12_others",
    ),
    one(
        "who is behind 31 large requests is refused",
        "oncegate.engine.admission::Admission.queue",
        replace("backlog.requests < QUEUE_REQUESTS", "backlog.requests < QUEUE_REQUESTS - 1"),
        f"{_ADMISSION}::test_without_a_deadline_a_request_waits_for_15_ms_or_behind_fewer_than_12_others",
    ),
    one(
        "who is behind 12 large requests is let in",
        "oncegate.engine.admission::Admission.queue",
        shift("backlog.requests < QUEUE_REQUESTS"),
        f"{_ADMISSION}::test_without_a_deadline_a_request_waits_for_15_ms_or_behind_fewer_than_12_others",
    ),
    one(
        "a request answered at its deadline is refused",
        "oncegate.engine.admission::Admission.queue",
        shift("DEADLINE_WAITS * wait_ms <= left_ms"),
        f"{_ADMISSION}::test_a_request_that_would_wait_beyond_its_deadline_is_refused_with_a_delay",
    ),
    one(
        "a deadline is as far off as the wait, and the answer comes after it",
        "oncegate.engine.admission::DEADLINE_WAITS",
        replace("2", "1"),
        f"{_ADMISSION}::test_a_request_that_would_wait_beyond_its_deadline_is_refused_with_a_delay",
    ),
    one(
        "a deadline counts for nothing",
        "oncegate.engine.admission::Admission.queue",
        replace("left_ms is None", "left_ms is None or left_ms > 0", nth=1),
        f"{_ADMISSION}::test_a_burst_that_is_served_before_its_deadlines_is_not_refused",
    ),
    one(
        "a refusal for a long wait omits the wait's length",
        "oncegate.engine.admission::Admission.queue",
        without("retry_after_ms="),
        f"{_ADMISSION}::test_a_request_that_would_wait_beyond_its_deadline_is_refused_with_a_delay",
    ),
    one(
        "time without requests is counted as service",
        "oncegate.engine.admission::Backlog.enter",
        replace("not self.requests", "self.requests == -1"),
        f"{_ADMISSION}::test_a_wait_is_the_work_before_a_request_over_the_rate_of_such_work",
    ),
    one(
        "an hour of slow service counts as the last second",
        "oncegate.engine.admission::Backlog.leave",
        replace_statement("self._busy_ms, self._done_bytes = (self._busy_ms / 2, self._done_bytes / 2)", "break"),
        f"{_ADMISSION}::test_service_that_was_slow_is_forgotten",
    ),
    one(
        "a request that would wait too long is refused after its body",
        "oncegate.transports.incoming::admit",
        delete("if is_sheddable:\n    admission.queue(backlog, head.timeout_ms)"),
        f"{_INCOMING}::test_what_would_wait_too_long_is_refused_before_its_body_is_read",
    ),
    one(
        "requests that arrive while a body is read are not counted",
        "oncegate.transports.incoming::admit",
        delete("admission.queue(backlog, deadline.left_ms)"),
        f"{_INCOMING}::test_who_would_wait_too_long_by_the_time_its_body_is_here_is_refused",
    ),
    one(
        "what settles a claim is refused for the wait of others",
        "oncegate.transports.incoming::admit",
        replace("head.call not in SETTLING", "True"),
        f"{_INCOMING}::test_what_settles_something_is_not_refused_for_its_wait",
        f"{_OVERLOAD}::test_settling_a_claim_is_not_refused_over_http_or_grpc",
    ),
    one(
        "who goes away is waited for",
        "oncegate.transports.incoming::admit",
        delete("deadline.decided()"),
        f"{_INCOMING}::test_a_request_waits_until_it_is_decided_refused_or_given_up",
    ),
    one(
        "requests refused before their decision are waited for",
        "oncegate.transports.incoming::Admitted.release",
        delete("self.deadline.decided()"),
        f"{_INCOMING}::test_a_request_waits_until_it_is_decided_refused_or_given_up",
    ),
    one(
        "what waits for the ledger is waited for",
        "oncegate.engine.deadline::Deadline.check",
        delete("self.decided()"),
        f"{_INCOMING}::test_a_request_waits_until_it_is_decided_refused_or_given_up",
    ),
    one(
        "all namespaces wait together",
        "oncegate.transports.incoming::admit",
        replace("serving.backlog", "gateway.namespace('default').backlog"),
        f"{_OVERLOAD}::test_probes_metrics_and_other_namespaces_are_answered_while_one_refuses",
    ),
    one(
        "probes are refused for the wait of a namespace",
        "oncegate.transports.http.routing::respond",
        replace_statement(
            "body_length(...)",
            ("gateway = call.state.gateway\ngateway.admission.queue(gateway.namespace('default').backlog, None)"),
        ),
        f"{_OVERLOAD}::test_probes_metrics_and_other_namespaces_are_answered_while_one_refuses",
    ),
    one(
        "a connection without room is read for as long as it sends",
        "oncegate.transports.http.server.acceptor::Acceptor._turn_away",
        replace("range(_READS)", "iter(int, 1)"),
        f"{_ACCEPTOR}::test_a_connection_without_room_that_sends_without_end_is_answered_and_holds_up_no_other",
    ),
    one(
        "a connection without room is read once less",
        "oncegate.transports.http.server.acceptor::Acceptor._turn_away",
        replace("range(_READS)", "range(1, _READS)"),
        f"{_ACCEPTOR}::test_a_connection_without_room_that_sends_without_end_is_answered_and_holds_up_no_other",
    ),
    one(
        "one connection is accepted a turn",
        "oncegate.transports.http.server.acceptor::Acceptor._accept",
        replace("self._per_turn", "1"),
        f"{_ACCEPTOR}::test_all_connections_that_wait_are_accepted_in_one_turn_of_the_loop",
    ),
    one(
        "connections are made without room",
        "oncegate.transports.http.server.acceptor::Acceptor._accept",
        replace("len(self._making)", "0"),
        f"{_ACCEPTOR}::test_connections_without_room_are_answered_whole_and_none_is_reset",
    ),
    one(
        "a connection without room is reset",
        "oncegate.transports.http.server.acceptor::Acceptor._turn_away",
        delete("for _ in range(_READS):\n    ..."),
        f"{_ACCEPTOR}::test_connections_without_room_are_answered_whole_and_none_is_reset",
    ),
    one(
        "nothing is accepted after a pause",
        "oncegate.transports.http.server.acceptor::Acceptor._wait",
        delete("self._pause = self._loop.call_later(PAUSE_S, self._go_on)"),
        f"{_ACCEPTOR}::test_after_an_error_of_the_system_connections_are_accepted_again",
    ),
    one(
        "what settles a claim is shed",
        "oncegate.transports.http.server.shedding::Shedding.refusal",
        replace("route.call in SETTLING", "False"),
        _LEFT,
    ),
    one(
        "a request is shed before it is whole",
        "oncegate.transports.http.server.shedding::Shedding.refusal",
        replace("(message.begun, message.ended) != (1, 1)", "message.begun != 1"),
        _LEFT,
    ),
    one(
        "a request is shed with the next one",
        "oncegate.transports.http.server.shedding::Shedding.refusal",
        replace("(message.begun, message.ended) != (1, 1)", "message.ended != 1"),
        _LEFT,
    ),
    one(
        "what another site sends is shed",
        "oncegate.transports.http.server.shedding::Shedding.refusal",
        replace("state.gate.refusal(scope) is not None", "False"),
        _LEFT,
    ),
    one(
        "the deadline of what is shed is passed over",
        "oncegate.transports.http.server.shedding::Shedding.refusal",
        replace("call.number('Oncegate-Timeout-Ms')", "None"),
        _LEFT,
    ),
    one(
        "who shows no key learns of the backlog",
        "oncegate.transports.http.server.shedding::Shedding.refusal",
        delete("call.check()"),
        f"{_SHEDDING}::test_a_caller_without_the_right_key_is_refused_by_that_and_not_by_the_wait",
    ),
    one(
        "connections are checked for ever",
        "oncegate.transports.http.server.shedding::Shedding.refusal",
        delete("admission.early_checks -= 1"),
        f"{_SHEDDING}::test_connections_are_checked_after_a_refusal_until_a_fixed_number_has_come",
    ),
    one(
        "one connection more is checked",
        "oncegate.transports.http.server.shedding::Shedding.is_on",
        shift("gateway.admission.early_checks > 0"),
        f"{_SHEDDING}::test_connections_are_checked_after_a_refusal_until_a_fixed_number_has_come",
    ),
    one(
        "no connection is checked after a refusal",
        "oncegate.engine.admission::Admission.queue",
        delete("self.early_checks = EARLY_CHECKS"),
        f"{_SHEDDING}::test_connections_are_checked_after_a_refusal_until_a_fixed_number_has_come",
    ),
    one(
        "bytes read from a connection are lost by its acceptor",
        "oncegate.transports.http.server.acceptor::Acceptor._made",
        replace("partial(self._protocol, begun)", "partial(self._protocol, b'')"),
        f"{_ACCEPTOR}::test_bytes_read_from_a_connection_that_is_not_shed_are_given_to_its_protocol",
    ),
    one(
        "bytes read from a connection are lost by its protocol",
        "oncegate.transports.http.server.protocol::Protocol.connection_made",
        delete("self.data_received(self.begun)"),
        _READ_BEFORE,
    ),
    one(
        "the work of a shed request is done all the same",
        "oncegate.transports.http.server.acceptor::Acceptor._accept",
        replace_statement("if begun and (refusal := self._shed(begun)) is not None:\n    ...", "self._shed(begun)"),
        f"{_ACCEPTOR}::test_a_shed_connection_is_answered_whole_and_never_made",
    ),
)
