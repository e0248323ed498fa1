"""Retry policy of one request: deadline, backoff, and polling for ids that another attempt holds.

No I/O, no clock, no Spark. Time is an argument (`now_ms`, monotonic) and randomness an injected `random.Random`, so
that tests control every schedule. Each try ends in one of six ways:

    no connection                   nothing was sent; wait and retry
    TLS missing or not trusted      raise
    sent, no complete reply         effect unknown; wait and retry with the same token and call
    reply with action retry         wait at least as long as it asks, and retry
    reply with action fix or stop   raise
    2xx                             done

Once the effect of any try is unknown, a later refusal leaves the effect of the whole request unknown.
"""

import json
import re
import ssl
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pyarrow as pa

from oncegate_spark.errors import (
    BY_ACTION,
    BY_CODE,
    InDoubt,
    OncegateError,
    Outcome,
    Refused,
    StillBusy,
    TurnedAway,
    Unanswered,
    Unreachable,
)
from oncegate_spark.protocol.packed import Verdicts

TIMEOUT_MS = 120_000  # longer than a gateway restart, shorter than Spark's limit for a task
# Limits of one try: an fsync under load takes seconds, and a lost reply must not use up the deadline.
TRY_MS_MIN, TRY_MS_MAX = 1_000, 30_000
BACKOFF_MS_FIRST, BACKOFF_MS_MAX = 50, 5_000
LEASE_MS = 30_000  # the gateway's default, for replies without a lease
SOURCE_OFFSETS_BYTES = 64 << 10  # the gateway's default limit; exceeding it would fail the batch
# error codes after which the rows may be written all the same
UNKNOWN_WHEN_ANSWERED = frozenset({"LEDGER_DOWN", "INTERNAL"})
# Codes of a gateway that is up but cannot decide. One that is only busy (OVERLOADED, QUOTA, DEADLINE) is not down.
DOWN_WHEN_ANSWERED = frozenset({"LEDGER_DOWN", "LEDGER_FENCED", "LEDGER_FULL", "RECOVERING", "STOPPING", "INTERNAL"})
# Verbs that finish work already begun. Giving up on them early would have another attempt write the rows again.
ENDING = frozenset({"complete", "release", "renew", "commit", "abort", "ack", "close"})
# Retryable, but not by repeating the request: by the owner of the batch, or after a lease that may be renewed past the
# timeout.
NEVER_SENT_AGAIN = frozenset({"MISSING_STAGE", "PRODUCER_BUSY"})
# Refusals that a request that took effect would not get when repeated.
SETTLES_DOUBT = frozenset({"NULL_ID", "SECOND_WRITE", "BATCH_CONFLICT", "BATCH_FORGOTTEN", "MISSING_STAGE"})

_WRITTEN = re.compile(r"[;:,.]? ?(nothing was written|whether this was written is unknown)\.?$", re.IGNORECASE)


def new_token() -> str:
    """Returns a random token for an attempt: 128 bits as 32 hexadecimal digits."""
    return uuid.uuid4().hex


@dataclass(frozen=True)
class Request:
    """One HTTP request. `what` names it in error messages; `unknown` describes the effect that is unknown without a
    reply.
    """

    method: str
    path: str
    what: str
    unknown: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | memoryview = b""

    @property
    def ends_work(self) -> bool:
        """True for verbs in ENDING, which are retried for their full timeout even while the gateway is down."""
        return self.path.partition("?")[0].rpartition(":")[2] in ENDING


@dataclass(frozen=True)
class Reply:
    """One complete HTTP reply; header names in lower case. `began_ms`: start of the try that was answered."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    began_ms: int = 0


def lower_names(headers: list[tuple[str, str]]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers}


class WireFailure(Exception):
    """A request ended without a complete reply.

    `sent`: the gateway may have received the request. `fix`: the fault of address or certificate that makes retries
    pointless.
    """

    def __init__(self, text: str, *, sent: bool, fix: str | None = None) -> None:
        super().__init__(text)
        self.sent = sent
        self.fix = fix

    @classmethod
    def of(cls, error: Exception, *, sent: bool) -> "WireFailure":
        """Wraps an error of the socket, of TLS or of HTTP."""
        text = "no answer in time" if isinstance(error, TimeoutError) else f"{type(error).__name__}: {error}"
        return cls(text, sent=sent, fix=_tls_fix(error))


@dataclass(frozen=True)
class ProblemDocument:
    """A refusal, read from the problem document or, without one, from the HTTP status."""

    status: int
    code: str
    action: str
    text: str
    retry_after_ms: int
    members: Mapping[str, object]

    @classmethod
    def of(cls, reply: Reply) -> "ProblemDocument":
        """Reads a refusal; members missing from the document are derived from the status."""
        document = _document(reply.body)
        status = reply.status
        unread = "retry" if status in {408, 429, 502, 503, 504} else "stop" if status >= 500 else "fix"
        bare = (
            f"HTTP {status}"
            if document or unread != "fix"
            else f"HTTP {status}, which no gateway answers; check the port"
        )
        title, detail = _unsaid(document.get("title") or bare), _unsaid(document.get("detail") or "")
        seconds = reply.headers.get("retry-after", "0")
        after = document.get("retry_after_ms") or (int(seconds) * 1_000 if seconds.isdigit() else 0)
        return cls(
            status=status,
            code=str(document.get("code") or ("INTERNAL" if status >= 500 else f"HTTP_{status}")),
            action=str(document.get("action") or unread),
            text=(f"{title}: {detail}" if detail else title).rstrip("."),
            retry_after_ms=after if isinstance(after, int) else 0,
            members=document,
        )

    def error(self, request: Request, address: str, *, in_doubt: bool) -> OncegateError:
        """Returns the exception for this problem; `in_doubt`: this try or an earlier one may have taken effect."""
        kind = BY_CODE.get(self.code) or BY_ACTION.get(self.action) or TurnedAway
        outcome = Outcome.UNKNOWN if in_doubt and self.code not in SETTLES_DOUBT else kind.outcome
        ending = f"unknown: {request.unknown}" if outcome is Outcome.UNKNOWN else outcome.value
        text = f"{request.what} to {address} was refused with {self.code} ({self.action}): {self.text}; {ending}"
        return kind(text, outcome=outcome, code=self.code, **_members(self.members))


class Effort:
    """Retry state of one request.

    A `patient` request is retried until its timeout. Others give up once the gateway is down: on a failed connection,
    on a reply that reports it, or after two tries without a reply (the first may have used a stale connection).
    """

    def __init__(
        self, request: Request, *, address: str, timeout_ms: int, now_ms: int, rng: Random, patient: bool = True
    ) -> None:
        self._request = request
        self._patient = patient
        self._unanswered = 0
        self._address = address
        self._timeout_ms = timeout_ms
        self._end_ms = now_ms + timeout_ms
        self._rng = rng
        self._tries = 0
        self._maybe_done = False
        self._last = ""
        self._problem: ProblemDocument | None = None

    def begin(self, now_ms: int) -> int:
        """Starts a try and returns its timeout in ms."""
        self._tries += 1
        one_try_ms = min(max(self._timeout_ms // 4, TRY_MS_MIN), TRY_MS_MAX)
        return max(1, min(one_try_ms, self._end_ms - now_ms))

    def left_ms(self, now_ms: int) -> int:
        """Returns the time left for all tries, at least 1 ms."""
        return max(1, self._end_ms - now_ms)

    def ended(self, end: "Reply | WireFailure", now_ms: int) -> int | None:
        """Dispatches the end of a try to `answered` or `failed`."""
        return self.answered(end, now_ms) if isinstance(end, Reply) else self.failed(end, now_ms)

    def failed(self, failure: WireFailure, now_ms: int) -> int:
        """Handles a try without a reply; returns the pause before the next one in ms. Raises if there is none."""
        self._maybe_done = self._maybe_done or failure.sent
        self._last, self._problem = str(failure), None
        if failure.fix is not None:
            raise self._hopeless(failure.fix)
        self._unanswered += failure.sent
        return self._pause(now_ms, 0, down=not failure.sent or self._unanswered > 1)

    def answered(self, reply: Reply, now_ms: int) -> int | None:
        """Returns None for success, else the pause before the next try in ms. Raises the refusal if it is final."""
        if 200 <= reply.status < 300:
            return None
        problem = ProblemDocument.of(reply)
        self._maybe_done = self._maybe_done or problem.code in UNKNOWN_WHEN_ANSWERED
        if problem.action != "retry" or problem.code in NEVER_SENT_AGAIN:
            raise problem.error(self._request, self._address, in_doubt=self._maybe_done)
        self._last, self._problem = f"{problem.code}: {problem.text}", problem
        return self._pause(now_ms, problem.retry_after_ms, down=problem.code in DOWN_WHEN_ANSWERED)

    def _pause(self, now_ms: int, at_least_ms: int, *, down: bool) -> int:
        if down and not self._patient:
            raise self._given_up("is down, and on_down allows no further retries, after")
        grown_ms = min(BACKOFF_MS_FIRST << min(self._tries - 1, 10), BACKOFF_MS_MAX)
        pause_ms = max(at_least_ms, int(grown_ms * self._rng.uniform(0.5, 1.0)))
        if now_ms + pause_ms >= self._end_ms:
            raise self._given_up(f"did not decide within {self._timeout_ms} ms and")
        return pause_ms

    def _hopeless(self, fix: str) -> OncegateError:
        outcome = Outcome.UNKNOWN if self._maybe_done else Outcome.NOT_WRITTEN
        ending = f"unknown: {self._request.unknown}" if self._maybe_done else outcome.value
        text = f"{self._request.what}: cannot connect to {self._address} (fix): {fix} ({self._last}); {ending}"
        return Refused(text, outcome=outcome, code="ADDRESS")

    def _given_up(self, how: str) -> OncegateError:
        kind: type[OncegateError] = Unanswered if self._maybe_done else TurnedAway if self._problem else Unreachable
        ending = f"unknown: {self._request.unknown}" if self._maybe_done else "nothing was written"
        return kind(
            f"{self._request.what}: {self._address} {how} {self._tries} tries; last error: {self._last}; {ending}",
            code=self._problem.code if self._problem else "UNREACHABLE",
        )


def _tls_fix(error: Exception) -> str | None:
    """Returns the remedy for a permanent TLS failure; None for a failure that may pass."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return "its certificate is not trusted: install its authority here, or use the host name that it was issued for"
    if isinstance(error, ssl.SSLError) and getattr(error, "reason", None) == "WRONG_VERSION_NUMBER":
        return "the port does not speak TLS: write http:// instead of https://, or name the TLS port"
    return None


def _unsaid(text: object) -> str:
    """Removes a trailing statement of the effect: the error message ends with the effect of all tries together."""
    return _WRITTEN.sub("", str(text))


def _document(body: bytes) -> dict[str, object]:
    try:
        document = json.loads(body)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _members(document: Mapping[str, object]) -> dict[str, object]:
    taken = {"text", "outcome", "code", "self"}
    return {name: value for name, value in document.items() if name not in taken}


SHOWN, SHOWN_CHARS = 5, 100


class BusyWatch:
    """Decides how long to poll for ids that another attempt holds: its lease + 50 % after its last observed renewal.

    Uses only the local clock: a renewal is observed when the reported end of the lease moves forward.
    """

    POLL_MS_FIRST, POLL_MS_MAX = 50, 1_000
    NOISE_MS = 50  # an expired lease is reported as 0 ms repeatedly; that is not a renewal

    def __init__(self, lease_ms: int, rng: Random) -> None:
        self._lease_ms = lease_ms
        self._rng = rng
        self._ends_ms: int | None = None
        self._until_ms = 0
        self._poll_ms = self.POLL_MS_FIRST

    def observe(self, now_ms: int, lease_left_ms: int) -> int | None:
        """Records BUSY ids; returns the pause before the next claim, or None once waiting longer is pointless."""
        lease_ms = max(self._lease_ms, lease_left_ms)
        ends_ms = now_ms + lease_left_ms
        moved_on = self._ends_ms is None or ends_ms > self._ends_ms + max(self.NOISE_MS, lease_ms // 20)
        if self._ends_ms is None or (moved_on and lease_left_ms > self.NOISE_MS):
            self._ends_ms, self._until_ms = ends_ms, now_ms + lease_ms + lease_ms // 2
        if now_ms >= self._until_ms:
            return None
        pause_ms = int(self._poll_ms * self._rng.uniform(0.5, 1.0))
        self._poll_ms = min(2 * self._poll_ms, self.POLL_MS_MAX)
        return max(10, min(pause_ms, lease_left_ms + 10))


def pause_ms(watch: BusyWatch, now_ms: int, verdicts: Verdicts) -> int:
    """Returns the pause before the next claim. Raises StillBusy once waiting longer is pointless."""
    pause = watch.observe(now_ms, verdicts.lease_left_ms)
    if pause is None:
        raise StillBusy(
            f"another attempt holds {verdicts.unsettled} rows and neither completes nor releases them; they were not "
            "written by this attempt"
        )
    return pause


def in_doubt(columns: Sequence[pa.Array | pa.ChunkedArray], verdicts: Verdicts, what: str) -> InDoubt:
    """Returns the error for the ids with verdict IN_DOUBT; `what` names the request in the message."""
    rows = zip(*(column.filter(verdicts.unresolved).to_pylist() for column in columns), strict=True)
    ids: list[Any] = [row_id[0] if len(columns) == 1 else row_id for row_id in rows]
    shown = ", ".join(repr(row_id)[:SHOWN_CHARS] for row_id in ids[:SHOWN])
    return InDoubt(
        f"{what}: {len(ids)} of {len(verdicts.data)} ids are in doubt, the first: {shown}. Their holder's lease "
        "expired, "
        "and it may have written them; the namespace forbids takeovers (lease_expiry is fail): check the sink, then "
        "run `oncegate resolve done` or `not-done`; they were not written by this attempt",
        outcome=Outcome.UNKNOWN,
        ids=ids,
    )
