"""A gateway, as a program without asyncio uses it; needs neither Spark nor a connection until the first request.

with Gateway("http://gateway:8080", namespace="mail") as gateway:
    with gateway.attempt() as attempt:
        claimed = attempt.claim(ids)
        send(claimed.granted)  # returns when it is durable
        attempt.complete(claimed)
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random, SystemRandom
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote, urlencode

import pyarrow as pa

from oncegate_spark import codecs
from oncegate_spark.attempt import Attempt
from oncegate_spark.clock import Clock, SystemClock
from oncegate_spark.codecs import Verdicts
from oncegate_spark.marks import HEADER, Newest
from oncegate_spark.names import Name
from oncegate_spark.protocol import TIMEOUT_MS, Effort, Reply, Request, WireFailure
from oncegate_spark.transport import Connection


@dataclass(frozen=True)
class Settled:
    """What became of a claim: `settled` ids are as asked, `taken_over` ids are another attempt's by now."""

    state: str
    settled: int
    taken_over: int
    lease_ms: int
    began_ms: int


@dataclass(frozen=True)
class Staged:
    """`committed`: the batch was published before, nothing was stored. `fingerprint`: the gateway's, of these rows."""

    committed: bool
    rows: int
    fingerprint: int


@dataclass(frozen=True)
class Committed:
    outcome: str
    rows: int
    first_offset: int
    suppressed_rows: int
    takeover_rows: int
    warning: str | None


class Gateway:
    """One namespace of one gateway, for one thread. Each call is tried until it is answered or its time is over.

    Raises what `errors` draws; every error says whether something was written, was not, or is unknown.
    """

    def __init__(
        self,
        url: str,
        namespace: str = "default",
        *,
        timeout_ms: int = TIMEOUT_MS,
        mark: str | None = None,
        clock: Clock | None = None,
        rng: Random | None = None,
    ) -> None:
        self.url = url.rstrip("/")
        self.namespace = namespace
        self.timeout_ms = timeout_ms
        self.clock: Clock = clock or SystemClock()
        self.rng: Random = rng or SystemRandom()
        self._marks = Newest(mark)
        self._connection = Connection(self.url, self.clock)
        self._root = f"/v1/namespaces/{quote(namespace, safe='')}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __reduce__(self) -> str | tuple[Any, ...]:
        raise TypeError("a Gateway holds a connection and is never pickled: make one where it is used, in the task")

    def close(self) -> None:
        self._connection.close()

    def twin(self) -> "Gateway":
        """The same gateway with a connection of its own, for another thread."""
        return Gateway(
            self.url, self.namespace, timeout_ms=self.timeout_ms, mark=self.mark, clock=self.clock, rng=self.rng
        )

    @property
    def mark(self) -> str | None:
        """The newest place of the ledger that an answer rested on."""
        return self._marks.mark

    def attempt(self, token: str | None = None) -> Attempt:
        """One try of some piece of work, under a fresh token unless one is given."""
        return Attempt(self, token)

    def claim(
        self, token: str, call: int, columns: Sequence[pa.Array], lease_ms: int | None = None
    ) -> tuple[Verdicts, int]:
        """Ask for ids (columns of equal length); the verdicts and when the answered try began, in ms."""
        headers = {"Content-Type": codecs.ARROW, "Accept": codecs.PACKED, **_attempt(token, call)}
        if lease_ms is not None:
            headers["Oncegate-Lease-Ms"] = str(lease_ms)
        reply = self._post(
            "/ids:claim",
            headers,
            codecs.ids_body(columns),
            f"claim {call} of {token[:8]}",
            "whether the ids are claimed",
        )
        return Verdicts.read(reply.body, len(columns[0])), reply.began_ms

    def settle(self, claim: str, verb: str, timeout_ms: int | None = None) -> Settled:
        """`verb` is renew, complete or release."""
        what, unknown = f"{verb} of claim {claim}", f"whether the claim is {verb}d"
        reply = self._post(f"/claims/{claim}:{verb}", {}, b"", what, unknown, timeout_ms)
        said = json.loads(reply.body)
        return Settled(said["state"], said["settled"], said["taken_over"], said["lease_ms"], reply.began_ms)

    def produce(self, topic: str, token: str, call: int, body: bytes) -> int:
        """Append rows (an Arrow stream) to a topic, at least once; how many."""
        headers = {"Content-Type": codecs.ARROW, **_attempt(token, call)}
        path = f"/topics/{quote(topic, safe='')}/records:produce"
        reply = self._post(path, headers, body, f"produce {call} of {token[:8]}", "whether these rows were written")
        return int(json.loads(reply.body)["rows"])

    def stage(self, name: Name, owner: str, token: str, chunk: int, body: bytes) -> Staged:
        """Lay down rows (an Arrow stream) that `commit` may publish; nobody can read them before."""
        query = urlencode({**name.members(), "owner": owner, "chunk": chunk})
        headers = {
            "Content-Type": codecs.ARROW,
            "Content-Digest": codecs.content_digest(body),
            "Oncegate-Token": token,
        }
        what = f"stage of chunk {chunk} of {token[:8]} for {name}"
        reply = self._post(
            f"/batches:stage?{query}", headers, body, what, "whether this chunk is staged; it is not published"
        )
        said = json.loads(reply.body)
        return Staged(
            said["outcome"] == "COMMITTED", said["rows"], int.from_bytes(bytes.fromhex(said["fingerprint"]), "little")
        )

    def commit(self, name: Name, order: Mapping[str, object]) -> Committed:
        """Publish what was staged, all or nothing. `order`: run, nonce, winners, digests, on_replay_mismatch."""
        body = json.dumps({"name": name.members(), **order}).encode()
        headers = {"Content-Type": codecs.JSON}
        reply = self._post("/batches:commit", headers, body, f"commit of {name}", "whether the batch is published")
        said = json.loads(reply.body)
        return Committed(
            said["outcome"],
            said["rows"],
            said["first_offset"],
            said["suppressed_rows"],
            said["takeover_rows"],
            said.get("warning"),
        )

    def abort(self, name: Name, tokens: Sequence[str], timeout_ms: int | None = None) -> None:
        """Drop what these tokens have staged; no effect once the batch is committed."""
        body = json.dumps({"name": name.members(), "tokens": list(tokens)}).encode()
        headers = {"Content-Type": codecs.JSON}
        self._post("/batches:abort", headers, body, f"abort of {name}", "whether the stages are dropped", timeout_ms)

    def fetch(
        self, topic: str, offset: int = 0, max_rows: int = 100_000, partition: int = 0
    ) -> tuple[pa.Table | None, int]:
        """Rows of a topic from an offset on, and the offset to go on from; None when there are none."""
        path = f"/topics/{quote(topic, safe='')}/partitions/{partition}/records?offset={offset}&max_rows={max_rows}"
        reply = self._get(path, {"Accept": codecs.ARROW}, f"fetch of topic {topic}")
        following = int(reply.headers["oncegate-next-offset"])
        table = pa.ipc.open_stream(reply.body).read_all() if reply.body else None
        return (table if table is not None and table.num_rows else None), following

    def read(self, topic: str) -> pa.Table | None:
        """All rows of a topic; None when it has none."""
        parts: list[pa.Table] = []
        offset = 0
        while True:
            table, offset = self.fetch(topic, offset)
            if table is None:
                return pa.concat_tables(parts) if parts else None
            parts.append(table)

    def topic(self, topic: str) -> dict[str, Any]:
        return dict(json.loads(self._get(f"/topics/{quote(topic, safe='')}", {}, f"look at topic {topic}").body))

    def describe(self) -> dict[str, Any]:
        """The namespace, with its counters."""
        return dict(json.loads(self._get("", {}, f"look at namespace {self.namespace}").body))

    def explain(self, *columns: str) -> dict[str, Any]:
        """What is known of one id (several values: an id of several columns)."""
        query = urlencode([("id", column) for column in columns])
        return dict(json.loads(self._get(f"/ids:explain?{query}", {}, "explain").body))

    def create_namespace(self) -> None:
        """Make the namespace; no effect when it exists."""
        self.send(Request("PUT", self._root, f"create namespace {self.namespace}", "whether it exists now"))

    def _get(self, path: str, headers: Mapping[str, str], what: str) -> Reply:
        return self.send(Request("GET", self._root + path, what, "nothing; it only reads", headers))

    def _post(
        self, path: str, headers: Mapping[str, str], body: bytes, what: str, unknown: str, timeout_ms: int | None = None
    ) -> Reply:
        return self.send(Request("POST", self._root + path, what, unknown, headers, body), timeout_ms)

    def send(self, request: Request, timeout_ms: int | None = None) -> Reply:
        """Try until the gateway answers with a decision, or the time is over."""
        clock = self.clock
        timeout_ms = self.timeout_ms if timeout_ms is None else timeout_ms
        effort = Effort(request, address=self.url, timeout_ms=timeout_ms, now_ms=clock.monotonic_ms(), rng=self.rng)
        while True:
            pause_ms = self._try(request, effort)
            if isinstance(pause_ms, Reply):
                return pause_ms
            clock.sleep_ms(pause_ms)

    def _try(self, request: Request, effort: Effort) -> Reply | int:
        try_ms = effort.begin(self.clock.monotonic_ms())
        headers = {**request.headers, "Oncegate-Timeout-Ms": str(try_ms)}
        if self.mark:
            headers[HEADER] = self.mark
        asked = Request(request.method, request.path, request.what, request.unknown, headers, request.body)
        try:
            reply = self._connection.exchange(asked, try_ms)
        except WireFailure as failure:
            return effort.failed(failure, self.clock.monotonic_ms())
        pause_ms = effort.answered(reply, self.clock.monotonic_ms())
        if pause_ms is not None:
            return pause_ms
        self._marks.note(reply.headers.get(HEADER.lower()))
        return reply


def _attempt(token: str, call: int) -> dict[str, str]:
    return {"Oncegate-Token": token, "Oncegate-Call": str(call)}
