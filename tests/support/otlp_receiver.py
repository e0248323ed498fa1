"""A receiver of OTLP over HTTP and gRPC that keeps the spans it gets, in place of a collector."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

WAIT_S = 20
_METHOD = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"


@dataclass(frozen=True)
class Span:
    """A span as it was sent; ids are hexadecimal, `links` are pairs of ids."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    kind: int
    began_ns: int
    ended_ns: int
    failed: bool
    attributes: dict[str, object]
    links: tuple[tuple[str, str], ...]
    service: str


@dataclass
class Receiver:
    """Keeps the spans it gets. `environ`: the variables that make a process send to it; `raw`: each request's bytes."""

    environ: dict[str, str] = field(default_factory=dict)
    spans: list[Span] = field(default_factory=list)
    raw: list[bytes] = field(default_factory=list)
    status: int = 200
    _arrived: threading.Condition = field(default_factory=threading.Condition)

    def take(self, body: bytes) -> None:
        """Keeps the spans of one request."""
        found = list(_spans(ExportTraceServiceRequest.FromString(body)))
        with self._arrived:
            self.raw.append(body)
            self.spans += found
            self._arrived.notify_all()

    def wait_for(self, *names: str, trace_id: str | None = None) -> dict[str, Span]:
        """Returns the first span of each name, of this trace if one is given, once all have arrived."""

        def found() -> dict[str, Span]:
            mine = [span for span in reversed(self.spans) if trace_id in (None, span.trace_id)]
            return {span.name: span for span in mine if span.name in names}

        with self._arrived:
            there = self._arrived.wait_for(lambda: len(found()) == len(set(names)), WAIT_S)
            assert there, f"{names} did not come; there are {[(span.name, span.trace_id) for span in self.spans]}"
            return found()

    def of(self, trace_id: str) -> list[Span]:
        """Returns the spans of one trace that have arrived."""
        return [span for span in self.spans if span.trace_id == trace_id]


def _spans(request: Any) -> Iterator[Span]:
    for resource in request.resource_spans:
        service = _attributes(resource.resource.attributes).get("service.name", "")
        for scope in resource.scope_spans:
            for span in scope.spans:
                links = tuple((link.trace_id.hex(), link.span_id.hex()) for link in span.links)
                yield Span(
                    span.name,
                    span.trace_id.hex(),
                    span.span_id.hex(),
                    span.parent_span_id.hex(),
                    span.kind,
                    span.start_time_unix_nano,
                    span.end_time_unix_nano,
                    span.status.code == 2,
                    _attributes(span.attributes),
                    links,
                    str(service),
                )


def _attributes(pairs: Any) -> dict[str, object]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}


@contextmanager
def otlp_over_http() -> Iterator[Receiver]:
    """Receives on a free port of 127.0.0.1 and answers with `status`."""
    receiver = Receiver()

    class Taking(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if receiver.status == 200 and self.path == "/v1/traces":
                receiver.take(body)
            self.send_response(receiver.status if self.path == "/v1/traces" else 404)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Taking)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    receiver.environ.update(OTEL_EXPORTER_OTLP_ENDPOINT=endpoint, OTEL_BSP_SCHEDULE_DELAY="50")
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def otlp_over_grpc() -> Iterator[Receiver]:
    """Receives over gRPC on a free port of 127.0.0.1."""
    receiver = Receiver()

    def export(body: bytes, _: Any) -> bytes:
        receiver.take(body)
        answer: bytes = ExportTraceServiceResponse().SerializeToString()
        return answer

    with ThreadPoolExecutor(2) as threads:
        server = grpc.server(threads)
        service, _, name = _METHOD[1:].partition("/")
        handlers = {name: grpc.unary_unary_rpc_method_handler(export)}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
        receiver.environ.update(environ, OTEL_BSP_SCHEDULE_DELAY="50")
        try:
            yield receiver
        finally:
            server.stop(None).wait()
