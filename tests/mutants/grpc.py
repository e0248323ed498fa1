"""Planted bugs of gRPC."""

from tests.mutants.edits import cell, delete, insert, move, replace, swap, without
from tests.mutants.mutant import Mutant, one

_CLAIMS = "tests/transports/grpc/test_claims.py"
_MATRIX = "tests/transports/grpc/test_access_matrix.py"
_BOTH = "tests/transports/test_doors.py"
_DOOR = "tests/transports/grpc/test_door.py"
_STREAMS = "tests/transports/grpc/test_streams.py"

GRPC: tuple[Mutant, ...] = (
    one(
        "marks over gRPC passed over",
        "oncegate.transports.grpc.calls::head_of",
        replace("texts.get(LEDGER)", "None"),
        f"{_CLAIMS}::test_a_gateway_that_is_behind_what_the_caller_saw_refuses_to_decide",
    ),
    one(
        "a gRPC call's resources are never released",
        "oncegate.transports.grpc.calls::_answered",
        delete("admitted.release()"),
        f"{_CLAIMS}::test_resources_of_a_call_are_returned_when_it_is_answered_or_refused",
    ),
    one(
        "sets of ids lost over gRPC",
        "oncegate.transports.grpc.claims::_claim_request",
        replace(
            "admitted.serving.fingerprints(id_set, CLAIMED)",
            "admitted.serving.fingerprints(None, CLAIMED)",
        ),
        f"{_CLAIMS}::test_sets_of_ids_and_batches_count_as_over_http",
    ),
    one(
        "retries over gRPC are not asked for",
        "oncegate.transports.grpc.errors::details_of",
        replace("error.action == 'retry'", "error.action == 'fix'"),
        f"{_CLAIMS}::test_without_room_a_call_gets_a_retry_delay",
    ),
    one(
        "gRPC calls end with their callers",
        "oncegate.transports.grpc.calls::handler.answer",
        replace(
            "asyncio.shield(begin(opened, observer, name, read, body, context))",
            "begin(opened, observer, name, read, body, context)",
        ),
        f"{_DOOR}::test_a_call_left_by_its_caller_runs_to_its_end_and_its_retry_gets_the_answer",
    ),
    one(
        "a stop cuts off what is on its way over gRPC",
        "oncegate.transports.grpc.server::GrpcServer.drain",
        replace("self._server.stop(within_s)", "self._server.stop(0)"),
        f"{_DOOR}::test_a_claim_on_its_way_is_answered_while_the_gateway_stops",
    ),
    one(
        "deadlines of gRPC calls passed over",
        "oncegate.transports.grpc.calls::head_of",
        replace("None if left_s is None else max(0, int(left_s * 1000))", "None"),
        f"{_DOOR}::test_a_call_not_decided_by_its_deadline_is_never_decided",
    ),
    one(
        "reflection without the setting",
        "oncegate.transports.grpc.server::listening",
        replace("reflected", "True"),
        f"{_DOOR}::test_reflection_is_available_only_if_the_setting_allows_it",
    ),
    one(
        "keys not asked for over gRPC",
        "oncegate.transports.grpc.calls::_answered",
        replace("opened.access is not None", "False"),
        f"{_MATRIX}::test_each_method_answers_each_role_according_to_the_one_table",
    ),
    one(
        "gRPC omits the remaining time of another's lease",
        "oncegate.transports.grpc.errors::details_of",
        replace("error.extra.get('retry_after_ms', error.retry_after_ms)", "error.retry_after_ms"),
        f"{_BOTH}",
    ),
    one(
        "a refusal over gRPC quotes all that was sent",
        "oncegate.transports.grpc.errors::_DETAIL_BYTES",
        replace("1024", "1 << 20"),
        f"{_CLAIMS}::test_a_refusal_that_quotes_long_names_keeps_its_code",
    ),
    one(
        "payloads of rows lost over gRPC",
        "oncegate.transports.grpc.records::_produce_request",
        replace("message.digest_col", "()"),
        f"{_BOTH}",
    ),
    one(
        "a repeat with other rows fails over gRPC even if it allows them",
        "oncegate.transports.grpc.records::_FIRST_WINS",
        cell("pb.REPLAY_MISMATCH_FIRST_WINS", "False"),
        f"{_BOTH}",
    ),
    one(
        "gaps are always allowed over gRPC",
        "oncegate.transports.grpc.producers::_GAPS",
        cell("pb.GAPS_REFUSE", "Gaps.ALLOW"),
        f"{_BOTH}",
    ),
    one(
        "the batch of an ack lost over gRPC",
        "oncegate.transports.grpc.producers::ack",
        replace("optional_number(message, 'batch')", "None"),
        f"{_BOTH}",
    ),
    one(
        "acks over gRPC need the role of writers",
        "oncegate.transports.grpc.producers::METHODS",
        cell("'Ack'", "Method(pb.AckRequest, ack, 'claimIds')"),
        f"{_MATRIX}::test_acks_need_the_role_of_drivers_forgetting_that_of_admins_and_all_else_that_of_writers",
    ),
    one(
        "a stream is read for as long as its client sends",
        "oncegate.transports.grpc.streams::Stream._read",
        delete("await self._room.acquire()", nth=2),
        f"{_STREAMS}::test_requests_are_read_ahead_while_earlier_ones_commit_and_no_more_than_that",
    ),
    one(
        "requests of a stream wait for one another",
        "oncegate.transports.grpc.streams::Stream._read",
        insert("await asyncio.wait({begun})", after="self._begun.put_nowait(begun)"),
        f"{_STREAMS}::test_requests_are_read_ahead_while_earlier_ones_commit_and_no_more_than_that",
    ),
    one(
        "every request of a stream is taken for a claim where rights are asked",
        "oncegate.transports.grpc.calls::_answered",
        replace(
            "opened.access.permit(method.call, str(message.namespace), credential_of(context))",
            "opened.access.permit('claimIds', str(message.namespace), credential_of(context))",
        ),
        f"{_MATRIX}::test_each_request_of_a_stream_needs_what_its_call_needs",
    ),
    one(
        "a stop waits for idle clients' streams",
        "oncegate.transports.grpc.server::GrpcServer.drain",
        delete("stream.stop()"),
        f"{_STREAMS}::test_a_stop_answers_requests_that_were_read_and_reports_itself",
    ),
    one(
        "streams take the places of calls",
        "oncegate.transports.grpc.server::listening",
        replace("limits.requests_in_flight + streams.STREAMS", "limits.requests_in_flight"),
        f"{_STREAMS}::test_streams_have_a_limit_of_their_own_and_calls_go_on_beside_them",
    ),
    one(
        "one connection begins calls without end",
        "oncegate.transports.grpc.server::_options",
        without("('grpc.max_concurrent_streams', CALLS_PER_CONNECTION)"),
        "tests/faults/server/test_http2_floods.py::test_calls_that_are_begun_and_cancelled_without_end_cost_no_other_client_a_call",
    ),
    one(
        "a request that a drained gateway refuses over gRPC keeps its slot",
        "oncegate.transports.grpc.calls::_answered",
        move("check_draining(...)", after="admitted = await admit(head, body, gateway, method.claims)"),
        f"{_DOOR}::test_a_drained_gateway_refuses_new_work_keeps_no_room_for_it_and_finishes_what_is_open",
    ),
    one(
        "answers on a stream are counted no more before they are taken",
        "oncegate.transports.grpc.streams::Stream.answers",
        swap("yield _answer(end)", "if isinstance(end, GrpcAnswer):\n    ..."),
        "tests/transports/grpc/test_unread_answers.py::"
        "test_streams_whose_answers_are_not_taken_are_counted_and_given_back_when_the_peer_goes",
    ),
)
