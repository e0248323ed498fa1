"""Calls as steps: what is to be sent, and how long to wait, one after another. The same steps for both clients.

A generator yields a `Try` or a `Pause`. Whoever has the socket and the clock takes the step and sends back how it
ended: a `Reply` or a `WireFailure` for a try, None for a pause. Nothing here waits, sends or is asynchronous.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from random import Random
from typing import TypeVar

from oncegate_spark.protocol.effort import Effort, Reply, Request, WireFailure
from oncegate_spark.protocol.marks import HEADER, Newest
from oncegate_spark.protocol.names import WRITER, WriterId, takes_writer
from oncegate_spark.protocol.outage import Outage
from oncegate_spark.version import user_agent

T = TypeVar("T")
# Of a gateway that is older than the header; before any effect.
_NO_WRITER = b"the header Oncegate-Writer is not taken here"


@dataclass(frozen=True)
class Try:
    """Send this once. `left_ms`: what is left for the whole call; waiting for a free connection may take all of it."""

    request: Request
    timeout_ms: int
    left_ms: int


@dataclass(frozen=True)
class Pause:
    """Wait so long before the next step."""

    duration_ms: int


Step = Try | Pause
StepEnd = Reply | WireFailure | None
Steps = Generator[Step, StepEnd, T]


class Tries:
    """Requests to one namespace of one gateway, each tried until the gateway answers with a decision.

    `patient`: also while it is down; without it only what ends work that was begun is. `writer`: named by the requests
    that write; None where nobody said it, or the gateway does not know the header.
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
        """The reply that decides. Raises what `errors` draws."""
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
            return replace(request, headers=headers)  # of the gateway itself, which takes no more there
        headers["Oncegate-Timeout-Ms"] = str(try_ms)
        if self.writer is not None and takes_writer(request.path):
            headers[WRITER] = self.writer.header()
        if self.marks.mark:
            headers[HEADER] = self.marks.mark
        return replace(request, headers=headers)
