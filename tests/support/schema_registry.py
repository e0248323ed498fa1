"""An in-memory schema registry: subjects with versions, schemas by number, refusals."""

import json
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

Answer = tuple[int, dict[str, object]]


class Registry:
    """The registered schemas.

    `refused`: the next schema to be registered is incompatible with the earlier ones. `user_info`: the USER:PASSWORD
    that each request must bring, "" for none. `is_failing`: requests for an existing schema are answered 500.
    """

    def __init__(self, url: str) -> None:
        self.url, self.refused, self.user_info, self.is_failing = url, False, "", False
        self.schemas: list[dict[str, object]] = []
        self.subjects: dict[str, list[int]] = {}
        self.asked: list[str] = []

    def answer(self, method: str, target: str, body: dict[str, object], authorization: str = "") -> Answer:
        path, query = urlsplit(target).path, urlsplit(target).query
        self.asked.append(f"{method} {path}")
        if self.user_info and authorization != f"Basic {b64encode(self.user_info.encode()).decode()}":
            return 401, {"error_code": 401, "message": "Unauthorized"}
        match [unquote(part) for part in path.strip("/").split("/")]:
            case ["subjects", subject, "versions"] if method == "POST":
                return self._register(subject, body)
            case ["subjects", subject] if method == "POST":
                return self._version(subject, self._number(body))
            case ["subjects", subject, "versions", version]:
                numbers = self.subjects.get(subject, [])
                at = len(numbers) if version == "latest" else int(version)
                status, found = self._version(subject, numbers[at - 1] if 0 < at <= len(numbers) else None)
                return status, _in_form(found, query)
            case ["schemas", "ids", number] if 0 < int(number) <= len(self.schemas):
                if self.is_failing:
                    return 500, {"error_code": 50003, "message": "Error while forwarding the request to the primary"}
                return 200, _in_form(self.schemas[int(number) - 1], query)
        return 404, {"error_code": 40403, "message": "Schema not found"}

    def _number(self, body: dict[str, object]) -> int | None:
        return self.schemas.index(body) + 1 if body in self.schemas else None

    def _register(self, subject: str, body: dict[str, object]) -> Answer:
        if self.refused:
            return 409, {"error_code": 409, "message": "Schema being registered is incompatible with an earlier schema"}
        number = self._number(body)
        if number is None:
            self.schemas.append(body)
            number = len(self.schemas)
        versions = self.subjects.setdefault(subject, [])
        if number not in versions:
            versions.append(number)
        return 200, {"id": number}

    def _version(self, subject: str, number: int | None) -> Answer:
        versions = self.subjects.get(subject, [])
        if number not in versions or number is None:
            return 404, {"error_code": 40401, "message": f"Subject '{subject}' not found."}
        place = {"subject": subject, "id": number, "version": versions.index(number) + 1}
        return 200, {**place, **self.schemas[number - 1]}


def _in_form(schema: dict[str, object], query: str) -> dict[str, object]:
    """Formats a schema as Confluent's registry does: Protobuf as source text, unless the descriptor is requested."""
    if schema.get("schemaType") != "PROTOBUF" or "format=serialized" in query:
        return schema
    return {**schema, "schema": 'syntax = "proto3";'}


@contextmanager
def schema_registry() -> Iterator[Registry]:
    """Runs a registry on a free port of this machine until the context ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self._answer({name: value for name, value in body.items() if value not in (None, [])})

        def do_GET(self) -> None:
            self._answer({})

        def _answer(self, body: dict[str, object]) -> None:
            status, answer = registry.answer(self.command, self.path, body, self.headers.get("Authorization", ""))
            content = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    registry = Registry(f"http://127.0.0.1:{server.server_address[1]}")
    # A shutdown waits for the end of such an interval.
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), name="schema registry", daemon=True)
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
