"""The proxy against a real HTTP server and real clients."""

import http.client
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest

from demo.proxy import Proxy, Trap, kind_of


class _Echo(BaseHTTPRequestHandler):
    """Echoes the request, and records every request that it acted on."""

    protocol_version = "HTTP/1.1"
    acted: ClassVar[list[tuple[str, bytes]]] = []
    status: ClassVar[int] = 200

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.acted.append((self.path, body))
        answer = json.dumps({"path": self.path, "size": len(body)}).encode()
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def gateway() -> Iterator[ThreadingHTTPServer]:
    _Echo.acted.clear()
    _Echo.status = 200
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Echo)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def proxy(gateway: ThreadingHTTPServer) -> Iterator[Proxy]:
    with Proxy(gateway.server_address[1]) as proxy:
        yield proxy


def ask(proxy: Proxy, path: str, body: bytes = b"x", token: str = "t1", call: int = 0) -> dict[str, object]:
    connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=10)
    try:
        connection.request("POST", path, body, {"Oncegate-Token": token, "Oncegate-Call": str(call)})
        return dict(json.loads(connection.getresponse().read()))
    finally:
        connection.close()


class _Told:
    """A trap that records its events; not ready until `begin()`."""

    def __init__(self, kind: str, ready: bool = True) -> None:
        self.struck: list[str] = []
        self.repeated: list[str] = []
        self.is_ready = ready
        self.trap = Trap(kind, lambda: self.is_ready, self.struck.append, self.repeated.append)


def test_whole_messages_pass_in_both_directions_over_one_kept_connection(proxy: Proxy) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=10)
    for size in (0, 1, 3_000_000):
        connection.request("POST", "/v1/x", b"a" * size)
        assert json.loads(connection.getresponse().read()) == {"path": "/v1/x", "size": size}
    connection.close()


def test_the_swallowed_answer_never_arrives_though_the_gateway_acted(proxy: Proxy) -> None:
    told = _Told("produce")
    proxy.arm(told.trap)
    with pytest.raises(ConnectionError):
        ask(proxy, "/v1/namespaces/n/topics/t/records:produce", b"rows")
    assert len(_Echo.acted) == 1
    assert len(told.struck) == 1


def test_a_trap_strikes_once_and_reports_the_repeat_of_that_very_request(proxy: Proxy) -> None:
    told = _Told("commit")
    proxy.arm(told.trap)
    path = "/v1/namespaces/n/batches:commit"
    with pytest.raises(ConnectionError):
        ask(proxy, path, b"body")
    ask(proxy, path, b"another body")
    assert told.repeated == []
    ask(proxy, path, b"body", call=1)
    assert told.repeated == []
    ask(proxy, path, b"body")
    assert told.repeated == told.struck
    assert len(_Echo.acted) == 4


def test_a_trap_waits_for_its_batch_and_its_kind(proxy: Proxy) -> None:
    told = _Told("claim", ready=False)
    proxy.arm(told.trap)
    ask(proxy, "/v1/namespaces/n/ids:claim")
    told.is_ready = True
    ask(proxy, "/v1/namespaces/n/claims/c:complete")
    assert told.struck == []
    with pytest.raises(ConnectionError):
        ask(proxy, "/v1/namespaces/n/ids:claim?x=1")


def test_a_refusal_is_passed_on_and_the_trap_keeps_waiting(proxy: Proxy) -> None:
    told = _Told("stage")
    proxy.arm(told.trap)
    _Echo.status = 503
    ask(proxy, "/v1/namespaces/n/batches:stage")
    _Echo.status = 200
    with pytest.raises(ConnectionError):
        ask(proxy, "/v1/namespaces/n/batches:stage")


def test_without_a_gateway_connections_are_closed_and_a_new_port_is_taken_up(
    proxy: Proxy, gateway: ThreadingHTTPServer
) -> None:
    port, proxy.upstream_port = proxy.upstream_port, 1
    with pytest.raises(ConnectionError):
        ask(proxy, "/v1/x")
    proxy.upstream_port = port
    assert ask(proxy, "/v1/x")["size"] == 1


def test_the_kind_of_a_request_is_its_verb() -> None:
    assert kind_of("/v1/namespaces/n/batches:stage?app=a:b&chunk=0") == "stage"
    assert kind_of("/v1/namespaces/n/topics/t:produce/partitions/0/records") is None
    assert kind_of("/v1/namespaces/n") is None
