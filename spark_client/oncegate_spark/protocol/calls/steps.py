"""Calls as generators, shared by both clients: each yields requests to send and pauses to wait.

A generator yields a `Try` or a `Pause`. The client with the socket and the clock executes it and sends back its end: a
`Reply` or `WireFailure` for a try, None for a pause. Nothing in here waits, sends or is asynchronous. The module also
encodes paths, queries, headers and JSON, and parses replies that several calls share.
"""

import json
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any, TypeVar
from urllib.parse import quote, unquote, urlencode

from oncegate_spark.protocol import codecs
from oncegate_spark.protocol.answers import Produced, ProducedOffsets
from oncegate_spark.protocol.columns import Columns, column_names
from oncegate_spark.protocol.effort import Effort, Reply, Request, WireFailure
from oncegate_spark.protocol.marks import HEADER, Newest
from oncegate_spark.protocol.names import WRITER, WriterId, takes_writer
from oncegate_spark.protocol.outage import Outage
from oncegate_spark.protocol.packed import Verdicts
from oncegate_spark.version import user_agent

T = TypeVar("T")
# Refusal of a gateway that is older than the header; it comes before any effect.
_NO_WRITER = b"the header Oncegate-Writer is not taken here"


@dataclass(frozen=True)
class Try:
    """Send the request once. `left_ms`: time left for the whole call, which waiting for a free
    connection may use up.
    """

    request: Request
    timeout_ms: int
    left_ms: int


@dataclass(frozen=True)
class Pause:
    """Wait before the next step."""

    duration_ms: int


Step = Try | Pause
StepEnd = Reply | WireFailure | None
Steps = Generator[Step, StepEnd, T]


class Tries:
    """Sends requests to one namespace of one gateway, each retried until a reply decides.

    `patient`: also retried while the gateway is down; otherwise only requests that end work already begun are.
    `writer`: named by requests that write; None if unknown, or if the gateway rejects the header.
    """

    def __init__(
        self,
        address: str,
        *,
        timeout_ms: int,
        mark: str | None,
        now_ms: Callable[[], int],
        rng: Random,
        patient: bool = True,
    ) -> None:
        self.patient = patient
        self.writer: WriterId | None = None
        self.address = address
        self.timeout_ms = timeout_ms
        self.now_ms = now_ms
        self.rng = rng
        self.marks = Newest(mark)
        self.outage = Outage(address)

    def of(self, request: Request, timeout_ms: int | None = None) -> Steps[Reply]:
        """Returns the deciding reply. Raises the errors listed in `errors`."""
        timeout_ms = self.timeout_ms if timeout_ms is None else timeout_ms
        patient = self.patient or request.ends_work
        effort = Effort(
            request, address=self.address, timeout_ms=timeout_ms, now_ms=self.now_ms(), rng=self.rng, patient=patient
        )
        while True:
            now_ms = self.now_ms()
            try_ms = effort.begin(now_ms)
            end = yield Try(self._headed(request, try_ms), try_ms, effort.left_ms(now_ms))
            assert end is not None, "a try ends in a reply or a failure"
            if isinstance(end, Reply) and end.status == 400 and _NO_WRITER in end.body:
                self.writer = None
                continue
            now_ms = self.now_ms()
            self.outage.note(end, now_ms, effort.left_ms(now_ms) if patient else 0)
            pause_ms = effort.ended(end, now_ms)
            if pause_ms is None:
                assert isinstance(end, Reply)
                self.marks.note(end.headers.get(HEADER.lower()))
                return end
            yield Pause(pause_ms)

    def _headed(self, request: Request, try_ms: int) -> Request:
        headers = {**request.headers, "User-Agent": user_agent()}
        if not request.path.startswith("/v1/namespaces/"):
            return replace(request, headers=headers)  # a route of the gateway itself, which accepts no further headers
        headers["Oncegate-Timeout-Ms"] = str(try_ms)
        if self.writer is not None and takes_writer(request.path):
            headers[WRITER] = self.writer.header()
        if self.marks.mark:
            headers[HEADER] = self.marks.mark
        return replace(request, headers=headers)


RetryScope = tuple[str, int]  # a driver, and its batch: the ids are forgotten once the batch is acked

ID_SET = "Oncegate-Id-Set"
JSON = {"Content-Type": codecs.JSON}
_ALWAYS = frozenset({"write_id", "id_set"})


def query(**parameters: str) -> str:
    """Encodes a query string with its question mark; omits empty values, except those that the
    gateway distinguishes.
    """
    fields = {name: value for name, value in parameters.items() if value or name in _ALWAYS}
    return f"?{urlencode(fields)}" if fields else ""


def located(locate: bool) -> str:
    return "?locate=true" if locate else ""


def joined(columns: Columns) -> str:
    """Joins column names to one parameter. Raises BadOption."""
    return ",".join(column_names(columns))


def topic_path(topic: str) -> str:
    return f"/topics/{quote(topic, safe='')}"


def json_body(fields: Mapping[str, object]) -> bytes:
    """Encodes a JSON body, to be sent with the headers `JSON`."""
    return json.dumps(fields).encode()


def attempt_headers(token: str, call: int) -> dict[str, str]:
    return {"Oncegate-Token": token, "Oncegate-Call": str(call)}


def scope_headers(scope: RetryScope | None) -> dict[str, str]:
    """Returns the headers for ids that belong to a driver's batch; none without a batch."""
    if scope is None:
        return {}
    driver, batch = scope
    return {"Oncegate-Driver": quote(driver, safe=""), "Oncegate-Batch": str(batch)}


def ids_headers(id_set: str | None) -> dict[str, str]:
    named = {} if id_set is None else {ID_SET: quote(id_set, safe="")}
    return {"Content-Type": codecs.ARROW, "Accept": codecs.PACKED, **named}


_OFFSETS = "oncegate-offsets"


def nothing_of(reply: Reply) -> None:
    """Accepts any reply of a gateway. Raises ValueError for an HTML page, which a proxy sent."""
    if "html" in reply.headers.get("content-type", ""):
        raise ValueError("an HTML page, which no gateway sends")


def members_of(reply: Reply) -> dict[str, Any]:
    return dict(json.loads(reply.body))


def verdicts_of(reply: Reply, count: int, locate: bool = False) -> Verdicts:
    """Decodes a packed reply for `count` ids or sequences. Raises Refused."""
    id_set = reply.headers.get(ID_SET.lower())
    return Verdicts.read(reply.body, count, None if id_set is None else unquote(id_set), locate)


def produced_of(reply: Reply, id_count: int | None, locate: bool = False) -> Produced:
    """Parses the reply to a produce request.

    `id_count`: number of rows sent with ids; None for rows without. `locate`: the first writes of duplicates were
    requested.
    """
    if id_count is None:
        document = json.loads(reply.body)
        return Produced(int(document["rows"]), offsets_of(document))
    offsets, before = _ranges(reply, _OFFSETS), _ranges(reply, f"{_OFFSETS}-before")
    return Produced(int(reply.headers["oncegate-rows"]), offsets, verdicts_of(reply, id_count, locate), before)


def offsets_of(document: dict[str, Any]) -> tuple[ProducedOffsets, ...]:
    return tuple(
        ProducedOffsets(member["partition"], member["first_offset"], member["rows"], member.get("topic"))
        for member in document["offsets"]
    )


def _ranges(reply: Reply, name: str) -> tuple[ProducedOffsets, ...]:
    ranges = [item for item in reply.headers.get(name, "").split(",") if item.strip()]
    topics: list[str | None] = [unquote(item) for item in reply.headers.get(f"{name}-topics", "").split(",") if item]
    numbers = (tuple(int(number) for number in item.split(":")) for item in ranges)
    return tuple(
        ProducedOffsets(partition, first, rows, topic)
        for (partition, first, rows), topic in zip(numbers, topics or [None] * len(ranges), strict=True)
    )
