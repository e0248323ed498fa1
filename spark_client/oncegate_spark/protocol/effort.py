"""Tries one request until its answer decides: deadlines, backoff, and waiting for ids that another attempt holds.

No I/O, no clock, no Spark. Time is an argument (`now_ms`, monotonic) and chance an injected `random.Random`, so every
schedule can be tested. The ends of a try, and what follows each:

    no connection                    nothing was sent; wait, try again
    no TLS there, or not to trust    raise
    sent, no whole answer            unknown; wait, try again with the same token and call
    an answer that says retry        wait at least as long as it asks, try again
    an answer that says fix or stop  raise
    2xx                              done

One try whose end is unknown makes the whole request unknown, whatever later tries are answered.
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

TIMEOUT_MS = 120_000  # longer than a restart of the gateway, shorter than Spark's patience with a task
TRY_MS_MIN, TRY_MS_MAX = (
    1_000,
    30_000,
)  # one try: a sync under load takes seconds; a lost reply must not cost the deadline
BACKOFF_MS_FIRST, BACKOFF_MS_MAX = 50, 5_000
LEASE_MS = 30_000  # the gateway's default, where an answer names no lease
SOURCE_OFFSETS_BYTES = 64 << 10  # the gateway's default: longer ones it refuses, and a batch would fail for them
UNKNOWN_WHEN_ANSWERED = frozenset({"LEDGER_DOWN", "INTERNAL"})  # answered, and yet perhaps written
# A gateway that is there and cannot decide; one that is only busy (OVERLOADED, QUOTA, DEADLINE) is not down.
DOWN_WHEN_ANSWERED = frozenset({"LEDGER_DOWN", "LEDGER_FENCED", "LEDGER_FULL", "RECOVERING", "STOPPING", "INTERNAL"})
# Verbs that end what was begun: who gives up on them at once makes of what is written what another one writes again.
ENDING = frozenset({"complete", "release", "renew", "commit", "abort", "ack", "close"})
# Says retry, but to whoever owns the batch; or wait for a lease, which may be renewed for longer than a call's time.
NEVER_SENT_AGAIN = frozenset({"MISSING_STAGE", "PRODUCER_BUSY"})
# Refusals that a request which did take effect would not get when repeated.
SETTLES_DOUBT = frozenset({"NULL_ID", "SECOND_WRITE", "BATCH_CONFLICT", "BATCH_FORGOTTEN", "MISSING_STAGE"})

_WRITTEN = re.compile(r"[;:,.]? ?(nothing was written|whether this was written is unknown)\.?$", re.IGNORECASE)


def new_token() -> str:
    """The random name of one attempt: 128 bits as 32 hexadecimal digits."""
    return uuid.uuid4().hex


@dataclass(frozen=True)
class Request:
    """One HTTP request. `what` names it to a person; `unknown` says what would be unknown if no answer came."""

    method: str
    path: str
    what: str
    unknown: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | memoryview = b""

    @property
    def ends_work(self) -> bool:
        """Whether it ends what was begun before, and is tried for its whole time however down the gateway is."""
        return self.path.partition("?")[0].rpartition(":")[2] in ENDING


@dataclass(frozen=True)
class Reply:
    """One whole HTTP reply. Header names in lower case; `began_ms`: when the try began that was answered."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    began_ms: int = 0


def lower_names(headers: list[tuple[str, str]]) -> dict[str, str]:
    """Header names in lower case, as a `Reply` has them."""
    return {name.lower(): value for name, value in headers}


class WireFailure(Exception):
    """A try ended without a whole answer. `sent`: the gateway may have seen it; `fix`: what is wrong with the address
    or the certificate, where no further try can end otherwise.
    """

    def __init__(self, text: str, *, sent: bool, fix: str | None = None) -> None:
        super().__init__(text)
        self.sent = sent
        self.fix = fix

    @classmethod
    def of(cls, error: Exception, *, sent: bool) -> "WireFailure":
        """The failure that an error of a socket, of TLS or of HTTP is."""
        text = "no answer in time" if isinstance(error, TimeoutError) else f"{type(error).__name__}: {error}"
        return cls(text, sent=sent, fix=_tls_fix(error))


@dataclass(frozen=True)
class ProblemDocument:
    """A refusal, as the problem document has it, or as the status says where there is none."""

    status: int
    code: str
    action: str
    text: str
    retry_after_ms: int
    members: Mapping[str, object]

    @classmethod
    def of(cls, reply: Reply) -> "ProblemDocument":
        """Read a refusal from its reply; what the document leaves out follows from the status."""
        document = _document(reply.body)
        status = reply.status
        unread = "retry" if status in {408, 429, 502, 503, 504} else "stop" if status >= 500 else "fix"
        bare = (
            f"HTTP {status}"
            if document or unread != "fix"
            else f"HTTP {status}, as no gateway answers; is it the port?"
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
        """Makes the error that this problem stands for.

        `in_doubt`: an earlier try, or this one, may have taken effect all the same.
        """
        kind = BY_CODE.get(self.code) or BY_ACTION.get(self.action) or TurnedAway
        outcome = Outcome.UNKNOWN if in_doubt and self.code not in SETTLES_DOUBT else kind.outcome
        ending = f"unknown: {request.unknown}" if outcome is Outcome.UNKNOWN else outcome.value
        text = f"{request.what} to {address} was refused with {self.code} ({self.action}): {self.text}; {ending}"
        return kind(text, outcome=outcome, code=self.code, **_members(self.members))


class Effort:
    """One request, from its first try to its end.

    `patient`: it is tried for the whole of its time; else it is given up as soon as the gateway is seen to be down: no
    connection, an answer that says so, or two tries without one (the first may have found a connection gone stale).
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
        """Begin a try; how long it may take, in ms."""
        self._tries += 1
        one_try_ms = min(max(self._timeout_ms // 4, TRY_MS_MIN), TRY_MS_MAX)
        return max(1, min(one_try_ms, self._end_ms - now_ms))

    def left_ms(self, now_ms: int) -> int:
        """What is left for all of the tries."""
        return max(1, self._end_ms - now_ms)

    def ended(self, end: "Reply | WireFailure", now_ms: int) -> int | None:
        """A try has ended, however it did: `answered` or `failed`."""
        return self.answered(end, now_ms) if isinstance(end, Reply) else self.failed(end, now_ms)

    def failed(self, failure: WireFailure, now_ms: int) -> int:
        """The try ended without an answer; how long to wait before the next. Raises when there is none."""
        self._maybe_done = self._maybe_done or failure.sent
        self._last, self._problem = str(failure), None
        if failure.fix is not None:
            raise self._hopeless(failure.fix)
        self._unanswered += failure.sent
        return self._pause(now_ms, 0, down=not failure.sent or self._unanswered > 1)

    def answered(self, reply: Reply, now_ms: int) -> int | None:
        """None when the answer decides, else how long to wait before the next try. Raises what it was refused for."""
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
            raise self._given_up("is down, and on_down gives up at once, after")
        grown_ms = min(BACKOFF_MS_FIRST << min(self._tries - 1, 10), BACKOFF_MS_MAX)
        pause_ms = max(at_least_ms, int(grown_ms * self._rng.uniform(0.5, 1.0)))
        if now_ms + pause_ms >= self._end_ms:
            raise self._given_up(f"gave no answer that decides in {self._timeout_ms} ms and")
        return pause_ms

    def _hopeless(self, fix: str) -> OncegateError:
        outcome = Outcome.UNKNOWN if self._maybe_done else Outcome.NOT_WRITTEN
        ending = f"unknown: {self._request.unknown}" if self._maybe_done else outcome.value
        text = f"{self._request.what}: {self._address} cannot be asked (fix): {fix} ({self._last}); {ending}"
        return Refused(text, outcome=outcome, code="ADDRESS")

    def _given_up(self, how: str) -> OncegateError:
        kind: type[OncegateError] = Unanswered if self._maybe_done else TurnedAway if self._problem else Unreachable
        ending = f"unknown: {self._request.unknown}" if self._maybe_done else "nothing was written"
        return kind(
            f"{self._request.what}: {self._address} {how} {self._tries} tries; last error: {self._last}; {ending}",
            code=self._problem.code if self._problem else "UNREACHABLE",
        )


def _tls_fix(error: Exception) -> str | None:
    """What is to be fixed where TLS failed for a reason that stays; None for what may pass."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return "its certificate is not trusted here: give the authority to this machine, or the name it was made for"
    if isinstance(error, ssl.SSLError) and getattr(error, "reason", None) == "WRONG_VERSION_NUMBER":
        return "what listens there speaks no TLS: write http:// for https://, or name the port that does"
    return None


def _unsaid(text: object) -> str:
    """Leaves out what the end of an error's text says for all tries together: whether something was written."""
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
    """How long to wait for ids that another attempt holds: its lease + 50 % after the last renewal seen.

    Judged by our own clock alone: a renewal is seen when the end of the lease, as the gateway answers it, moves on.
    """

    POLL_MS_FIRST, POLL_MS_MAX = 50, 1_000
    NOISE_MS = 50  # a lease that is over is answered as 0 again and again; that is no renewal

    def __init__(self, lease_ms: int, rng: Random) -> None:
        self._lease_ms = lease_ms
        self._rng = rng
        self._ends_ms: int | None = None
        self._until_ms = 0
        self._poll_ms = self.POLL_MS_FIRST

    def observe(self, now_ms: int, lease_left_ms: int) -> int | None:
        """Some ids are BUSY; how long to wait before asking again, None when there is no sense in waiting on."""
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
    """How long to wait before asking again for what others hold; StillBusy when there is no sense in waiting on."""
    pause = watch.observe(now_ms, verdicts.lease_left_ms)
    if pause is None:
        raise StillBusy(
            f"{verdicts.unsettled} rows are held by another attempt that neither completes them nor lets "
            "go; they were not written by this one"
        )
    return pause


def in_doubt(columns: Sequence[pa.Array | pa.ChunkedArray], verdicts: Verdicts, what: str) -> InDoubt:
    """The error for those of the ids in these columns that were told IN_DOUBT; `what`: was asked, for a person."""
    rows = zip(*(column.filter(verdicts.unresolved).to_pylist() for column in columns), strict=True)
    ids: list[Any] = [row_id[0] if len(columns) == 1 else row_id for row_id in rows]
    shown = ", ".join(repr(row_id)[:SHOWN_CHARS] for row_id in ids[:SHOWN])
    return InDoubt(
        f"{what}: {len(ids)} of {len(verdicts.data)} ids are in doubt, the first: {shown}. Their holder's lease ran "
        "out, it may have written them, and the namespace lets nobody take them over (lease_expiry is fail): find "
        "out, then `oncegate resolve done` or `not-done`; they were not written by this attempt",
        outcome=Outcome.UNKNOWN,
        ids=ids,
    )
