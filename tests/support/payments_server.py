"""A real HTTP payments server that honours Idempotency-Key and can lose or delay an answer."""

import threading
from collections import Counter, deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class PaymentsServer:
    """Accepts POST on 127.0.0.1. A payment with a key is made once; one without is made at each request.

    `faults` apply to requests in turn: `lose` makes the payment and hangs up; `hang_up` hangs up before it; a number
    answers that status without a payment; `hold` makes the payment and answers only when the server stops.
    """

    def __init__(self, *faults: str | int) -> None:
        self.faults = deque(faults)
        self.paid: Counter[str] = Counter()  # by the request's body
        self.keys: list[str | None] = []
        self._known: set[str] = set()
        self._lock, self._stopped = threading.Lock(), threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/payments"

    def __enter__(self) -> "PaymentsServer":
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._server.shutdown()
        self._server.server_close()

    def answer(self, key: str | None, body: str) -> int | None:
        """Returns the status to answer, or None to hang up."""
        with self._lock:
            self.keys.append(key)
            fault = self.faults.popleft() if self.faults else None
            if fault == "hang_up" or isinstance(fault, int):
                return fault if isinstance(fault, int) else None
            if key is None or key not in self._known:
                self.paid[body] += 1
            self._known |= set() if key is None else {key}
        if fault == "hold":
            self._stopped.wait()
        return None if fault in ("lose", "hold") else 201


def _handler(server: PaymentsServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            status = server.answer(self.headers["Idempotency-Key"], body)
            if status is None:
                self.close_connection = True
                return
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler
