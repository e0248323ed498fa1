"""Sheds load: under overload, refuses requests before their connections are set up.

Setting up a connection and reading its request costs five times as much as this refusal. At four times the capacity,
that would cost more than all accepted requests together. The rule is that of `Admission.queue`; every request that the
rule does not clearly refuse takes the usual path.
"""

from typing import Any, cast

import httptools

from oncegate.core.errors import OncegateError, Overloaded
from oncegate.transports.http.call import Call
from oncegate.transports.http.routes import TABLE
from oncegate.transports.http.server import closing
from oncegate.transports.incoming import SETTLING
from oncegate.transports.tracing import trace_id_of


class _Message:
    """Collects the target, the fields and the number of messages that httptools parses."""

    def __init__(self) -> None:
        self.target, self.begun, self.ended = b"", 0, 0
        self.fields: list[tuple[bytes, bytes]] = []

    def on_message_begin(self) -> None:
        self.begun += 1

    def on_url(self, target: bytes) -> None:
        self.target += target

    def on_header(self, name: bytes, value: bytes) -> None:
        self.fields.append((name.lower(), value))

    def on_message_complete(self) -> None:
        self.ended += 1


class Shedding:
    """Checks a connection's first bytes on behalf of `Acceptor`. An application without a gateway sheds nothing."""

    def __init__(self, app: Any) -> None:
        self._app = app

    def is_on(self) -> bool:
        """Returns whether a request was recently refused for its expected wait; each refusal allows a number of early
        checks.
        """
        state = getattr(self._app, "state", None)
        gateway = getattr(state, "gateway", None)
        return gateway is not None and gateway.admission.early_checks > 0

    def refusal(self, data: bytes) -> bytes | None:
        """Returns the refusal for a connection that sent these bytes; None if the connection should be set up.

        Only complete requests are refused. The connection is closed after the refusal, and a client that is still
        sending would be reset before it reads the response.
        """
        state = self._app.state
        admission = state.gateway.admission
        admission.early_checks -= 1
        message = _Message()
        parser = httptools.HttpRequestParser(message)
        try:
            parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            return None
        if (
            (message.begun, message.ended) != (1, 1)
            or parser.get_method() != b"POST"
            or parser.get_http_version() != "1.1"
        ):
            return None
        raw_path, _, query = message.target.partition(b"?")
        path = raw_path.decode("latin-1")
        if (of_path := TABLE.route_of("POST", path)) is None:
            return None
        route, parameters = of_path
        if not route.admits or route.call in SETTLING:
            return None
        scope: dict[str, Any] = {"path": path, "raw_path": raw_path, "query_string": query, "headers": message.fields}
        if state.gate.refusal(scope) is not None:
            return None
        call = Call(scope, route, parameters, state, cast(Any, None))  # its body is not read
        try:
            call.check()
            admission.queue(
                state.gateway.namespace(parameters["namespace"]).backlog, call.number("Oncegate-Timeout-Ms")
            )
        except Overloaded as error:
            return closing.refusal(error, trace_id_of(message.fields))
        except OncegateError:
            return None
        return None
