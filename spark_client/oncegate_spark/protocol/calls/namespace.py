"""Every call of the gateway: how its request is written and what its reply means. No I/O; both clients take them."""

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import quote, unquote, urlencode

import pyarrow as pa

from oncegate_spark.errors import BadOption, OffsetTrimmed, OncegateError, Unreadable
from oncegate_spark.protocol import codecs
from oncegate_spark.protocol.answers import Committed, Offsets, Produced, Settled, Staged, Taken, Topic
from oncegate_spark.protocol.busy import in_doubt
from oncegate_spark.protocol.calls.steps import Steps, Tries
from oncegate_spark.protocol.codecs import Verdicts
from oncegate_spark.protocol.columns import Columns, column_names
from oncegate_spark.protocol.effort import Reply, Request
from oncegate_spark.protocol.ids import Ids, id_columns, listed
from oncegate_spark.protocol.names import Name

Scope = tuple[str, int]  # a driver, and the number of its batch: ids are forgotten when that is acked
T = TypeVar("T")

FETCH_ROWS = 100_000  # as the gateway's default; fewer come where they are wide
PAGE_NAMES = 1_000  # as many as one answer may have
ID_SET = "Oncegate-Id-Set"
_BEFORE = "oncegate-offsets-before"
ALWAYS = frozenset({"write_id", "id_set"})
JSON = {"Content-Type": codecs.JSON}


class Calls:
    """The calls to one namespace, as steps. Each raises what `errors` draws."""

    def __init__(self, tries: Tries, namespace: str) -> None:
        self.tries = tries
        self._namespace = namespace
        self._root = f"/v1/namespaces/{quote(namespace, safe='')}"

    def claim(
        self,
        token: str,
        call: int,
        columns: Sequence[pa.Array],
        lease_ms: int | None = None,
        scope: Scope | None = None,
        payloads: Sequence[pa.Array] = (),
        id_set: str | None = None,
        locate: bool = False,
    ) -> Steps[tuple[Verdicts, int]]:
        """Ask for ids under a lease; the verdicts, and when the answered try began (ms)."""
        headers = {**ids_headers(id_set), **_attempt(token, call), **_scope(scope)}
        if payloads:
            headers["Oncegate-Digest-Cols"] = ",".join(codecs.payload_names(payloads))
        if lease_ms is not None:
            headers["Oncegate-Lease-Ms"] = str(lease_ms)
        body, what = codecs.ids_body(columns, payloads), f"claim {call} of {token[:8]}"
        request = self.post(f"/ids:claim{_located(locate)}", what, "whether the ids are claimed", headers, body)
        return self.send(request, lambda reply: (verdicts_of(reply, len(columns[0]), locate), reply.began_ms))

    def settle(
        self, claim: str, verb: str, timeout_ms: int | None = None, result: bytes | None = None
    ) -> Steps[Settled]:
        """Renew, complete or release a claim; complete it with a result, if there is one. Raises LostClaim."""
        path, what = f"/claims/{quote(claim, safe='')}:{verb}", f"{verb} of claim {claim}"
        brought = (None, b"") if result is None else (JSON, _json({"result": base64.b64encode(result).decode()}))
        request = self.post(path, what, f"whether the claim is {verb.removesuffix('e')}ed", *brought)

        def read(reply: Reply) -> Settled:
            document = json.loads(reply.body)
            counts = document["settled"], document["taken_over"], document["lease_ms"]
            kept = base64.b64decode(document["result"]) if "result" in document else None
            return Settled(document["state"], *counts, reply.began_ms, kept)

        return self.send(request, read, timeout_ms)

    def take(
        self, owner: str, ids: Ids, scope: Scope | None = None, id_set: str | None = None, locate: bool = False
    ) -> Steps[Taken]:
        """Take ids for good under an owner's name. Raises BadOption, BadId before anything is sent."""
        if not isinstance(owner, str) or not owner:
            raise BadOption(
                f"owner is {owner!r}; it is a text that names the job and its input, the same at every run: "
                'take("load-2026-11-20", ids); nothing was taken'
            )
        given = listed(ids)
        columns = id_columns(given)
        headers = {**ids_headers(id_set), "Oncegate-Owner": quote(owner, safe=""), **_scope(scope)}
        body, what = codecs.ids_body(columns), f"take by {owner}"
        unknown = "whether the ids are taken; asking again is harmless"
        request = self.post(f"/ids:take{_located(locate)}", what, unknown, headers, body)
        taken = yield from self.send(request, lambda reply: Taken(given, verdicts_of(reply, len(columns[0]), locate)))
        if "IN_DOUBT" in taken.verdicts:
            raise in_doubt(columns, taken.verdicts, what)
        return taken

    def produce(
        self,
        topic: str,
        token: str,
        call: int,
        body: bytes | memoryview,
        id_col: Columns = (),
        key_col: Columns = (),
        scope: Scope | None = None,
        digest_cols: Columns = (),
        id_set: str | None = None,
        locate: bool = False,
    ) -> Steps[Produced]:
        """Append rows, an Arrow stream, to a topic: all of them in one request, or nothing. Raises BadOption."""
        ids = column_names(id_col)
        if not ids and (id_set is not None or locate):
            asked = "locate asks for the first of each id" if locate else "id_set names the set of the rows' ids"
            raise BadOption(f"{asked}; name the id by id_col; nothing was sent")
        given = {"id_col": _joined(id_col), "key_col": _joined(key_col), "digest_col": _joined(digest_cols)}
        given |= {"locate": "true"} if locate else {}
        query = _query("?", **given, **({} if id_set is None else {"id_set": id_set}))
        headers = {"Content-Type": codecs.ARROW, "Accept": codecs.PACKED if ids else codecs.JSON}
        path, what = f"{_topic_path(topic)}/records:produce{query}", f"produce {call} of {token[:8]}"
        unknown = "whether these rows were written"
        request = self.post(path, what, unknown, {**headers, **_attempt(token, call), **_scope(scope)}, body)
        return self.send(request, lambda reply: produced_of(reply, codecs.rows_in(body) if ids else None, locate))

    def stage(
        self, name: Name, owner: str, token: str, chunk: int, body: bytes | memoryview, key_col: Columns = ()
    ) -> Steps[Staged]:
        """Stage rows, an Arrow stream, for a batch; nobody can read them before its commit."""
        members = {**name.members(), "owner": owner, "chunk": str(chunk), "key_col": _joined(key_col)}
        headers = {"Content-Type": codecs.ARROW, "Content-Digest": codecs.content_digest(body), "Oncegate-Token": token}
        path, what = f"/batches:stage{_query('?', **members)}", f"stage of chunk {chunk} of {token[:8]} for {name}"
        request = self.post(path, what, "whether this chunk is staged; it is not published", headers, body)

        def read(reply: Reply) -> Staged:
            document = json.loads(reply.body)
            fingerprint = int.from_bytes(bytes.fromhex(document["fingerprint"]), "little")
            return Staged(document["outcome"] == "COMMITTED", document["rows"], fingerprint)

        return self.send(request, read)

    def commit(self, name: Name, order: Mapping[str, object]) -> Steps[Committed]:
        """Publish what was staged under a batch's name, all or nothing."""
        members = ("outcome", "rows", "suppressed_rows", "takeover_rows", "first_of_app")
        body, what = _json({"name": name.members(), **order}), f"commit of {name}"
        request = self.post("/batches:commit", what, "whether the batch is published", JSON, body)

        def read(reply: Reply) -> Committed:
            document = json.loads(reply.body)
            counts = {member: document[member] for member in members}
            return Committed(**counts, offsets=_offsets(document), warning=document.get("warning"))

        return self.send(request, read)

    def abort(self, name: Name, tokens: Sequence[str], timeout_ms: int | None = None) -> Steps[bool]:
        """Drop what these tokens have staged; no effect once the batch is committed: tells whether it is."""
        body, what = _json({"name": name.members(), "tokens": list(tokens)}), f"abort of {name}"
        request = self.post("/batches:abort", what, "whether the stages are dropped", JSON, body)
        return self.send(request, lambda reply: bool(json.loads(reply.body)["outcome"] == "COMMITTED"), timeout_ms)

    def source_offsets(self, app: str, topic: str, write_id: str = "") -> Steps[str]:
        """Look up where the source of an app's batches, or of a driver's acks, is to be read on. Raises NotFound."""
        query = _query("?", app=app, topic=topic, write_id=write_id)
        what = f"look at the source offsets of {app} in topic {topic}"
        return self.get(f"/batches:offsets{query}", what, lambda reply: str(json.loads(reply.body)["source_offsets"]))

    def create_namespace(
        self,
        horizon_ms: int | None = None,
        auto_create_topics: bool | None = None,
        record_headers: bool | None = None,
        lease_expiry: str | None = None,
        id_time: str | None = None,
        shadow: bool | None = None,
        on_ledger_down: str | None = None,
    ) -> Steps[None]:
        """Create the namespace, or set it up."""
        return self._put(
            "",
            f"namespace {self._namespace}",
            horizon_ms=horizon_ms,
            auto_create_topics=auto_create_topics,
            record_headers=record_headers,
            lease_expiry=lease_expiry,
            id_time=id_time,
            shadow=shadow,
            on_ledger_down=on_ledger_down,
        )

    def delete_namespace(self, confirm: str = "") -> Steps[None]:
        """Delete the namespace; one that holds something only where `confirm` is its name."""
        what = f"delete namespace {self._namespace}"
        request = Request("DELETE", self._root + _query("?", confirm=confirm), what, "whether the namespace is deleted")
        yield from self.send(request, _nothing)
        self.tries.marks.forget()

    def create_topic(
        self,
        topic: str,
        partitions: int | None = None,
        retention_ms: int | None = None,
        retention_bytes: int | None = None,
        schema: pa.Schema | None = None,
        merge_schema: bool = False,
    ) -> Steps[None]:
        """Create a topic, or change the retention of one that exists, or add columns to it."""
        return self._put(
            _topic_path(topic),
            f"topic {topic}",
            partitions=partitions,
            retention_ms=retention_ms,
            retention_bytes=retention_bytes,
            schema_ipc=None if schema is None else base64.b64encode(schema.serialize().to_pybytes()).decode(),
            merge_schema=merge_schema or None,
        )

    def topic(self, topic: str) -> Steps[Topic]:
        """Look up a topic's schema, ends and retention. Raises NotFound."""
        return self.get(_topic_path(topic), f"look at topic {topic}", _topic)

    def fetch(
        self, topic: str, offset: int, max_rows: int, partition: int, columns: Columns | None = None
    ) -> Steps[tuple[pa.Table | None, int]]:
        """Read rows of one partition from an offset on; with them the offset to go on from. Raises OffsetTrimmed."""
        query = _query("?", offset=str(offset), max_rows=str(max_rows), columns=_joined(columns or ()))
        path = f"{_topic_path(topic)}/partitions/{partition}/records{query}"
        return self.get(path, f"fetch of topic {topic}", _fetched, codecs.ARROW)

    def read(self, topic: str, columns: Columns | None = None) -> Steps[pa.Table | None]:
        """All rows that are there at the time of the call, partition by partition."""
        known = yield from self.topic(topic)
        parts: list[pa.Table] = []
        for partition, (low, high) in enumerate(zip(known.low_offsets, known.high_offsets, strict=True)):
            parts += yield from self._partition(topic, partition, low, high, columns)
        # Columns may be added while it reads; what was read before has nulls there.
        return pa.concat_tables(parts, promote_options="default") if parts else None

    def _partition(
        self, topic: str, partition: int, offset: int, high: int, columns: Columns | None
    ) -> Steps[list[pa.Table]]:
        parts: list[pa.Table] = []
        while offset < high:
            try:
                table, following = yield from self.fetch(
                    topic, offset, min(FETCH_ROWS, high - offset), partition, columns
                )
            except OffsetTrimmed as gone:  # retention has dropped rows since we looked: what is left is all there is
                table, following = None, gone.low_offset
            if following <= offset:
                break
            offset = following
            if table is not None:
                parts.append(table)
        return parts

    def topics(self) -> Steps[list[str]]:
        """List the namespace's topics, page by page."""
        names: list[str] = []
        after: str | None = ""
        while after is not None:
            query = _query("?", after=after, limit=str(PAGE_NAMES))
            document = yield from self.get(f"/topics{query}", f"list topics of {self._namespace}", _members)
            names += document["topics"]
            after = document["next"]
        return names

    def describe(self) -> Steps[dict[str, Any]]:
        """Look up the namespace's settings and counters."""
        return self.get("", f"look at namespace {self._namespace}", _members)

    def limits(self) -> Steps[dict[str, Any]]:
        """Look up what the gateway takes at most."""
        request = Request("GET", "/v1/limits", "look at the limits", "nothing; it only reads", {"Accept": codecs.JSON})
        return self.send(request, _members)

    def explain(self, *columns: str, id_set: str = "") -> Steps[dict[str, Any]]:
        """Look up what is known of one id of a set, given as its columns' values."""
        query = urlencode([*(("id", column) for column in columns), ("id_set", id_set)])
        return self.get(f"/ids:explain?{query}", "explain", _members)

    def _put(self, path: str, made: str, **given: object) -> Steps[None]:
        fields = {name: value for name, value in given.items() if value is not None}
        unknown = f"whether the {made.split()[0]} exists now, with these settings"
        return self.send(Request("PUT", self._root + path, f"create {made}", unknown, JSON, _json(fields)), _nothing)

    def post(
        self,
        path: str,
        what: str,
        unknown: str,
        headers: Mapping[str, str] | None = None,
        body: bytes | memoryview = b"",
    ) -> Request:
        """A call below the namespace; for `send`."""
        return Request("POST", self._root + path, what, unknown, headers or {}, body)

    def get(self, path: str, what: str, read: Callable[[Reply], T], accept: str = codecs.JSON) -> Steps[T]:
        """Send a GET below the namespace and read its reply."""
        request = Request("GET", self._root + path, what, "nothing; it only reads", {"Accept": accept})
        return self.send(request, read)

    def send(self, request: Request, read: Callable[[Reply], T], timeout_ms: int | None = None) -> Steps[T]:
        """What `read` makes of the reply that decides; Unreadable where it cannot."""
        reply = yield from self.tries.of(request, timeout_ms)
        try:
            return read(reply)
        except (ValueError, KeyError, TypeError, pa.ArrowException, OncegateError) as error:
            raise Unreadable(
                f"{request.what}: what {self.tries.address} answered cannot be read ({type(error).__name__}: {error}); "
                f"is one of them older? unknown: {request.unknown}"
            ) from error


def _joined(columns: Columns) -> str:
    return ",".join(column_names(columns))


def _query(before: str, **given: str) -> str:
    """What is empty is left out, except where the gateway wants to see it."""
    fields = {name: value for name, value in given.items() if value or name in ALWAYS}
    return before + urlencode(fields) if fields else ""


def _located(locate: bool) -> str:
    return "?locate=true" if locate else ""


def _topic_path(topic: str) -> str:
    return f"/topics/{quote(topic, safe='')}"


def _json(fields: Mapping[str, object]) -> bytes:
    return json.dumps(fields).encode()


def _attempt(token: str, call: int) -> dict[str, str]:
    return {"Oncegate-Token": token, "Oncegate-Call": str(call)}


def _scope(scope: Scope | None) -> dict[str, str]:
    if scope is None:
        return {}
    driver, batch = scope
    return {"Oncegate-Driver": quote(driver, safe=""), "Oncegate-Batch": str(batch)}


def ids_headers(id_set: str | None) -> dict[str, str]:
    """Give the headers of a request that asks of ids in a set."""
    named = {} if id_set is None else {ID_SET: quote(id_set, safe="")}
    return {"Content-Type": codecs.ARROW, "Accept": codecs.PACKED, **named}


def _nothing(reply: Reply) -> None:
    """Being answered is all there is to know."""


def _members(reply: Reply) -> dict[str, Any]:
    return dict(json.loads(reply.body))


def _offsets(document: dict[str, Any]) -> tuple[Offsets, ...]:
    return tuple(Offsets(one["partition"], one["first_offset"], one["rows"]) for one in document["offsets"])


def produced_of(reply: Reply, id_count: int | None, locate: bool = False) -> Produced:
    """Reads the answer to a produce request.

    `id_count`: how many rows were sent with ids; None without. `locate`: the firsts of duplicates were asked for.
    """
    if id_count is None:
        document = json.loads(reply.body)
        return Produced(int(document["rows"]), _offsets(document))
    offsets, before = _ranges(reply.headers["oncegate-offsets"]), _ranges(reply.headers.get(_BEFORE, ""))
    return Produced(int(reply.headers["oncegate-rows"]), offsets, verdicts_of(reply, id_count, locate), before)


def _ranges(text: str) -> tuple[Offsets, ...]:
    ranges = [one for one in text.split(",") if one.strip()]
    return tuple(Offsets(*(int(number) for number in one.split(":"))) for one in ranges)


def verdicts_of(reply: Reply, count: int, locate: bool = False) -> Verdicts:
    """Reads a packed answer to `count` ids or sequences. Raises Refused."""
    id_set = reply.headers.get(ID_SET.lower())
    return Verdicts.read(reply.body, count, None if id_set is None else unquote(id_set), locate)


def _topic(reply: Reply) -> Topic:
    document = json.loads(reply.body)
    ipc = document.get("schema_ipc")
    schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(ipc))) if ipc else None
    ends = tuple(document["low_offsets"]), tuple(document["high_offsets"])
    return Topic(document["topic"], schema, *ends, document["retention_ms"], document["retention_bytes"])


def _fetched(reply: Reply) -> tuple[pa.Table | None, int]:
    following = int(reply.headers["oncegate-next-offset"])
    table = pa.ipc.open_stream(reply.body).read_all() if reply.body else None
    return (table if table is not None and table.num_rows else None), following
