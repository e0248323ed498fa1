"""Planted bugs of traces, logs and exemplars: a span below the wrong one, or one that says what nobody is to read."""

from tests.mutants.mutant import Mutant, one
from tests.mutants.planted import ENGINE

_REQUESTS = "tests/transports/traces/test_requests.py"
_VARIABLES = "tests/transports/traces/test_variables.py"
_LOGS = "tests/transports/traces/test_logs.py"
_EXEMPLARS = "tests/transports/traces/test_exemplars.py"
_TRACING = "service/oncegate/runtime/tracing.py"
_SPANS = f"{ENGINE}/commit/append_spans.py"

TRACES: tuple[Mutant, ...] = (
    one(
        "a request is not below its caller",
        _TRACING,
        "        above = self._propagator.extract(self._carrier(headers))\n",
        "        above = self._propagator.extract({})\n",
        f"{_REQUESTS}::test_a_claim_over_http_is_one_span_below_its_caller_and_the_append_is_below_the_claim",
    ),
    one(
        "a commit is linked with none of those that it commits",
        _SPANS,
        "                commit.link(span)\n",
        "",
        f"{_REQUESTS}::test_one_append_of_many_claims_is_below_one_of_them_and_linked_with_the_others",
    ),
    one(
        "a claim of a batch has the trace of the first of it",
        f"{ENGINE}/usecases/claim_batching.py",
        "            group_commit.wait(rests_on, one.waiter, one.span)\n",
        "            group_commit.wait(rests_on, one.waiter, batch[0].span)\n",
        f"{_REQUESTS}::test_one_append_of_many_claims_is_below_one_of_them_and_linked_with_the_others",
    ),
    one(
        "an answer that came during an append is not linked with it",
        _SPANS,
        "        for at, span in self._waiting:\n            if at <= position",
        "        for at, span in self._waiting[:1]:\n            if at <= position",
        f"{_REQUESTS}::test_an_answer_that_rests_on_an_append_under_way_is_linked_with_it",
    ),
    one(
        "a span is named by its path",
        "service/oncegate/transports/http/tracing.py",
        '    route, method = getattr(scope.get("route"), "path", ""), scope["state"]["method"]\n',
        '    route, method = scope["path"] + "?" + scope["query_string"].decode(), scope["state"]["method"]\n',
        f"{_REQUESTS}::test_what_the_framework_serves_is_named_by_its_route_and_no_query_is_recorded",
        f"{_LOGS}::test_no_log_span_or_metric_says_an_id_a_payload_or_a_token",
    ),
    one(
        "a refusal's text is in its span",
        "service/oncegate/transports/tracing.py",
        'span.note({"oncegate.code": error.code} |',
        'span.note({"oncegate.code": error.code, "oncegate.detail": error.detail} |',
        f"{_LOGS}::test_no_log_span_or_metric_says_an_id_a_payload_or_a_token",
    ),
    one(
        "what the caller does not sample is recorded",
        _TRACING,
        "            yield Recording(span, self._tracer) if span.is_recording() else None\n",
        "            yield Recording(span, self._tracer)\n",
        f"{_EXEMPLARS}::test_a_claim_that_is_not_sampled_leaves_no_exemplar",
    ),
    one(
        "traces are on unless a variable says otherwise",
        "service/oncegate/runtime/otel_variables.py",
        '    asks = "OTEL_TRACES_EXPORTER" in given or any(name in given for name in _ENDPOINTS)\n',
        "    asks = True\n",
        f"{_VARIABLES}::test_traces_go_where_the_variables_say_and_nowhere_without_them",
    ),
    one(
        "a collector that refuses is a line for each batch",
        _TRACING,
        "        if now_ms - self._said_ms.get(kind, -SAID_EVERY_MS) >= SAID_EVERY_MS:\n",
        "        if now_ms >= 0:\n",
        f"{_VARIABLES}::test_a_collector_that_refuses_is_a_line_in_the_log_and_no_request_fails",
    ),
    one(
        "a task that a request began goes on in its trace",
        "service/oncegate/ports/tracing.py",
        "        cell.span = None\n",
        "",
        f"{_LOGS}::test_what_a_request_began_is_in_its_trace_no_longer_than_the_request",
    ),
    one(
        "a thread of ours is part of no trace",
        "spark_client/oncegate_spark/spark/writers/common.py",
        "thread.submit(copy_context().run, work, following[0])",
        "thread.submit(work, following[0])",
        "tests/client/traces/test_headers.py::test_work_in_a_thread_of_ours_is_part_of_the_span_of_who_gave_it",
    ),
    one(
        "a renewal is part of no trace",
        "spark_client/oncegate_spark/sync/lease.py",
        "partial(copy_context().run, self._renewals, lease, over)",
        "partial(self._renewals, lease, over)",
        "tests/client/traces/test_headers.py::test_both_clients_calls_are_below_the_span_that_they_are_made_in",
    ),
    one(
        "whatever the environment says is sent as a trace",
        "spark_client/oncegate_spark/tracing/context.py",
        "    if not _TRACEPARENT.fullmatch(parent):\n",
        "    if not parent:\n",
        "tests/client/traces/test_headers.py::test_what_is_no_trace_in_the_environment_is_passed_over",
    ),
    one(
        "a log line has no trace",
        "service/oncegate/runtime/log_observer.py",
        '                shown = {"trace_id": trace_id, "span_id": span_id} | shown\n',
        "                pass\n",
        f"{_LOGS}::test_a_line_about_a_traced_request_names_its_trace_and_span_as_json",
    ),
    one(
        "spans that found the queue full were never there",
        "service/oncegate/runtime/counted_spans.py",
        "                if self._came - self._counted.taken - self._lost > self._most:\n",
        "                if False:\n",
        "tests/transports/traces/test_lost_spans.py::test_each_span_is_sent_or_counted_as_lost_by_why",
    ),
    one(
        "spans count as sent whatever their export came to",
        "service/oncegate/runtime/counted_spans.py",
        "SENT if ended is SpanExportResult.SUCCESS else FAILED",
        "SENT",
        "tests/transports/traces/test_lost_spans.py::test_each_span_is_sent_or_counted_as_lost_by_why",
        "tests/transports/traces/test_lost_spans.py::test_what_a_collector_refuses_stands_in_the_metrics",
    ),
)
