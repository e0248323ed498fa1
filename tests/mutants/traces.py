"""Planted bugs of traces, logs and exemplars: a span with the wrong parent, or one that contains a secret."""

from tests.mutants.edits import delete, replace, without
from tests.mutants.mutant import Mutant, one

_REQUESTS = "tests/transports/traces/test_requests.py"
_VARIABLES = "tests/transports/traces/test_variables.py"
_LOGS = "tests/transports/traces/test_logs.py"

TRACES: tuple[Mutant, ...] = (
    one(
        "a commit is linked with none of those that it commits",
        "oncegate.engine.commit.queue::Waiters.release",
        delete("commit.link(...)"),
        f"{_REQUESTS}::test_one_append_of_many_claims_is_below_one_of_them_and_linked_with_the_others",
    ),
    one(
        "a claim of a batch has the trace of the first of it",
        "oncegate.engine.usecases.claim_batching::ClaimBatcher._answer",
        replace("one.span", "batch[0].span"),
        f"{_REQUESTS}::test_one_append_of_many_claims_is_below_one_of_them_and_linked_with_the_others",
    ),
    one(
        "an answer that came during an append is not linked with it",
        "oncegate.engine.commit.queue::Waiters.release",
        replace("waiter.span is not None", "waiter.span is not None and waiter is waiting[0]"),
        f"{_REQUESTS}::test_an_answer_that_rests_on_an_append_under_way_is_linked_with_it",
    ),
    one(
        "a span is named by its path",
        "oncegate.transports.http.tracing::note_route",
        replace("getattr(scope.get('route'), 'path', '')", "scope['path'] + '?' + scope['query_string'].decode()"),
        f"{_REQUESTS}::test_requests_served_by_the_framework_are_named_by_their_route_and_no_query_is_recorded",
        f"{_LOGS}::test_no_log_span_or_metric_contains_an_id_a_payload_or_a_token",
    ),
    one(
        "a refusal's text is in its span",
        "oncegate.transports.tracing::note_refusal",
        replace("{'oncegate.code': error.code}", "{'oncegate.code': error.code, 'oncegate.detail': error.detail}"),
        f"{_LOGS}::test_no_log_span_or_metric_contains_an_id_a_payload_or_a_token",
    ),
    one(
        "a collector that refuses is a line for each batch",
        "oncegate.runtime.tracing::TraceLibraryLog.emit",
        replace("now_ms - self._said_ms.get(kind, -SAID_EVERY_MS) >= SAID_EVERY_MS", "now_ms >= 0"),
        f"{_VARIABLES}::test_a_collector_that_refuses_is_a_line_in_the_log_and_no_request_fails",
    ),
    one(
        "a task that a request began continues in its trace",
        "oncegate.ports.tracing::current_as",
        delete("cell.span = None"),
        f"{_LOGS}::test_work_begun_by_a_request_is_in_its_trace_no_longer_than_the_request",
    ),
    one(
        "a thread of ours is part of no trace",
        "oncegate_spark.spark.writers.common::pipelined",
        without("copy_context().run"),
        "tests/client/traces/test_headers.py::test_work_in_a_thread_of_ours_is_part_of_the_span_of_who_gave_it",
    ),
    one(
        "a renewal is part of no trace",
        "oncegate_spark.sync.lease::Holder.renewal",
        without("copy_context().run"),
        "tests/client/traces/test_headers.py::test_both_clients_calls_are_below_the_span_that_they_are_made_in",
    ),
    one(
        "any text in the environment is sent as a trace",
        "oncegate_spark.tracing::of_environment",
        replace("_TRACEPARENT.fullmatch(parent)", "parent"),
        "tests/client/traces/test_headers.py::test_an_invalid_trace_in_the_environment_is_ignored",
    ),
    one(
        "spans that found the queue full were never there",
        "oncegate.runtime.tracing::CountedBatches.on_end",
        replace("self._came - self._counted.taken - self._lost > self._most", "False"),
        "tests/transports/traces/test_lost_spans.py::test_each_span_is_sent_or_counted_as_lost_by_why",
    ),
)
