"""A call carries its span: OpenTelemetry's current one, else that of the environment."""

import threading

import pytest
from opentelemetry.sdk.trace import TracerProvider

from oncegate_spark.protocol.address import GatewayAddress, with_key
from oncegate_spark.spark.writers.common import pipelined
from oncegate_spark.tracing import asks
from tests.support.clients import Connect
from tests.support.gateway_process import GatewayProcess
from tests.support.otlp_receiver import Receiver

TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{CALLER}-01"
HERE = GatewayAddress.of("http://127.0.0.1:8080")


@pytest.fixture
def tracer() -> object:
    return TracerProvider(shutdown_on_exit=False).get_tracer("a program of a user's")


def test_without_a_trace_nothing_is_added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRACEPARENT", raising=False)
    assert with_key(HERE, {"A": "b"}) == {"A": "b"}


def test_the_environments_trace_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACEPARENT", PARENT)
    monkeypatch.setenv("TRACESTATE", "vendor=1")
    assert with_key(HERE, {}) == {"traceparent": PARENT, "tracestate": "vendor=1"}


@pytest.mark.parametrize(
    "parent", ["what", PARENT + "\r\nAuthorization: x", PARENT.upper(), f"00-{'0' * 32}-{CALLER}-01", "ff" + PARENT[2:]]
)
def test_an_invalid_trace_in_the_environment_is_ignored(monkeypatch: pytest.MonkeyPatch, parent: str) -> None:
    monkeypatch.setenv("TRACEPARENT", parent)
    monkeypatch.setenv("TRACESTATE", "vendor=1")
    assert with_key(HERE, {}) == {}


def test_a_current_span_takes_precedence_over_the_environment(monkeypatch: pytest.MonkeyPatch, tracer: object) -> None:
    monkeypatch.setenv("TRACEPARENT", PARENT)
    with tracer.start_as_current_span("work") as span:  # type: ignore[attr-defined]
        sent = with_key(HERE, {})["traceparent"]
    context = span.get_span_context()
    assert sent.startswith(f"00-{context.trace_id:032x}-{context.span_id:016x}-")


def test_work_in_a_thread_of_ours_is_part_of_the_span_of_who_gave_it(tracer: object) -> None:
    with tracer.start_as_current_span("work"):  # type: ignore[attr-defined]
        here = with_key(HERE, {})
        ((_, there),) = pipelined(lambda _: (threading.get_ident(), with_key(HERE, {})), [0])
    assert there == (there[0], here)
    assert there[0] != threading.get_ident()


def test_both_clients_calls_are_below_the_span_that_they_are_made_in(
    traced_gateway: GatewayProcess, receiver: Receiver, connect: Connect, tracer: object
) -> None:
    with tracer.start_as_current_span("work") as span:  # type: ignore[attr-defined]
        context = span.get_span_context()
        with connect(traced_gateway.url) as gateway, gateway.attempt() as attempt:
            claimed = attempt.claim(["a-1"], 1_000)
            with attempt.holding(claimed):
                renewed = "POST /v1/namespaces/{namespace}/claims/{claim}:renew"
                spans = receiver.wait_for(renewed, trace_id=f"{context.trace_id:032x}")
            attempt.release(claimed)
    assert spans[renewed].parent_id == f"{context.span_id:016x}"
    claim = "POST /v1/namespaces/{namespace}/ids:claim"
    assert receiver.wait_for(claim, trace_id=f"{context.trace_id:032x}")[claim].parent_id == spans[renewed].parent_id


@pytest.mark.parametrize(
    ("environ", "asked"),
    [
        ({}, False),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318", "OTEL_TRACES_EXPORTER": "none"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318", "OTEL_SDK_DISABLED": "true"}, False),
    ],
)
def test_a_task_is_recorded_where_the_environment_asks_for_it(environ: dict[str, str], asked: bool) -> None:
    assert asks(environ) is asked
