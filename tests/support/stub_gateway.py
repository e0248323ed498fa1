"""A scripted gateway that returns a test's answers and records the requests."""

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Asked:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Answer:
    """An answer of the stub.

    `cut`: send only this many bytes of the body, then hang up. `lost`: hang up without a byte. `held`: wait first.
    `chunked`: send chunks of this many bytes, without a length. `interim`: sent before the reply. `head_cut`: send only
    this many bytes of the head, then hang up.
    """

    status: int = 200
    body: bytes = b"{}"
    headers: dict[str, str] = field(default_factory=dict)
    cut: int | None = None
    lost: bool = False
    held: threading.Event | None = None
    chunked: int | None = None
    interim: bytes = b""
    head_cut: int | None = None


LOST = Answer(lost=True)


def problem(status: int, code: str, action: str, **more: Any) -> Answer:
    document = {"type": "about:blank", "title": code.title(), "status": status, "detail": "so it is", "code": code}
    body = json.dumps({**document, "action": action, **more}).encode()
    return Answer(status, body, {"Content-Type": "application/problem+json"})


def in_chunks(body: bytes, size_bytes: int) -> bytes:
    """Encodes a body in HTTP's chunked coding."""
    parts = [body[n : n + size_bytes] for n in range(0, len(body), size_bytes)]
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in [*parts, b""])


Script = Callable[[Asked], Answer]


class StubGateway:
    """Listens on 127.0.0.1. Returns `answers` in turn, then those of `otherwise`."""

    def __init__(self, *answers: Answer, otherwise: Script | None = None) -> None:
        self.answers = list(answers)
        self.otherwise = otherwise or (lambda asked: Answer())
        self.asked: list[Asked] = []
        self.connections = 0
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]  # clients hang up on purpose
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> "StubGateway":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _next(self, asked: Asked) -> Answer:
        self.asked.append(asked)
        return self.answers.pop(0) if self.answers else self.otherwise(asked)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        stub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                stub.connections += 1
                super().setup()

            def handle_one(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                self.reply(stub._next(Asked(self.command, self.path, headers, body)))

            do_GET = do_POST = do_PUT = do_DELETE = handle_one

            def reply(self, answer: Answer) -> None:
                if answer.held is not None:
                    answer.held.wait(30)
                self.wfile.write(answer.interim)
                if answer.lost:
                    self.close_connection = True
                    return
                self.send_response(answer.status)
                length = {"Transfer-Encoding": "chunked"} if answer.chunked else {"Content-Length": len(answer.body)}
                for name, value in {**length, **answer.headers}.items():
                    self.send_header(name, str(value))
                if answer.head_cut is not None:
                    self.wfile.write(b"".join(self._headers_buffer)[: answer.head_cut])  # type: ignore[attr-defined]
                    self._headers_buffer, self.close_connection = [], True
                    return
                self.end_headers()
                body = in_chunks(answer.body, answer.chunked) if answer.chunked else answer.body
                self.wfile.write(body if answer.cut is None else body[: answer.cut])
                self.close_connection = answer.cut is not None

            def log_message(self, *_: object) -> None:
                pass

        return Handler
