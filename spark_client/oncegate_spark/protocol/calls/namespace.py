"""Calls for ids, look-ups and the namespace itself, as steps for both clients. No I/O.

The calls for topics, batches and producers are in modules of their own.
"""

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import pyarrow as pa

from oncegate_spark.errors import BadOption, OncegateError, Unreadable
from oncegate_spark.protocol import codecs
from oncegate_spark.protocol.answers import Decided, Produced, Settled, Taken
from oncegate_spark.protocol.calls.steps import (
    JSON,
    RetryScope,
    Steps,
    Tries,
    attempt_headers,
    ids_headers,
    joined,
    json_body,
    located,
    members_of,
    nothing_of,
    produced_of,
    query,
    scope_headers,
    topic_path,
    verdicts_of,
)
from oncegate_spark.protocol.columns import Columns, column_names
from oncegate_spark.protocol.effort import Reply, Request, in_doubt
from oncegate_spark.protocol.ids import Ids, id_columns, listed, text_of
from oncegate_spark.protocol.packed import Verdicts

T = TypeVar("T")


class Calls:
    """Calls to one namespace, as steps; `errors` lists what they raise."""

    def __init__(self, tries: Tries, namespace: str) -> None:
        self.tries = tries
        self.namespace = namespace
        self._root = f"/v1/namespaces/{quote(namespace, safe='')}"

    def claim(
        self,
        token: str,
        call: int,
        columns: Sequence[pa.Array],
        lease_ms: int | None = None,
        scope: RetryScope | None = None,
        payloads: Sequence[pa.Array] = (),
        id_set: str | None = None,
        locate: bool = False,
    ) -> Steps[tuple[Verdicts, int]]:
        """Claims ids under a lease; returns the verdicts, and the start of the answered request in ms."""
        headers = {**ids_headers(id_set), **attempt_headers(token, call), **scope_headers(scope)}
        if payloads:
            headers["Oncegate-Digest-Cols"] = ",".join(codecs.payload_names(payloads))
        if lease_ms is not None:
            headers["Oncegate-Lease-Ms"] = str(lease_ms)
        body, what = codecs.ids_body(columns, payloads), f"claim {call} of {token[:8]}"
        request = self.post(f"/ids:claim{located(locate)}", what, "whether the ids are claimed", headers, body)
        return self.send(request, lambda reply: (verdicts_of(reply, len(columns[0]), locate), reply.began_ms))

    def settle(
        self, claim: str, verb: str, timeout_ms: int | None = None, result: bytes | None = None
    ) -> Steps[Settled]:
        """Renews, completes or releases a claim; `result` is stored with its completion. Raises LostClaim."""
        path, what = f"/claims/{quote(claim, safe='')}:{verb}", f"{verb} of claim {claim}"
        brought = (None, b"") if result is None else (JSON, json_body({"result": base64.b64encode(result).decode()}))
        request = self.post(path, what, f"whether the claim is {verb.removesuffix('e')}ed", *brought)

        def read(reply: Reply) -> Settled:
            document = json.loads(reply.body)
            counts = document["settled"], document["taken_over"], document["lease_ms"]
            kept = base64.b64decode(document["result"]) if "result" in document else None
            return Settled(document["state"], *counts, reply.began_ms, kept)

        return self.send(request, read, timeout_ms)

    def take(
        self, owner: str, ids: Ids, scope: RetryScope | None = None, id_set: str | None = None, locate: bool = False
    ) -> Steps[Taken]:
        """Claims ids permanently, without a lease, under an owner's name. Raises BadOption and BadId before anything is
        sent.
        """
        if not isinstance(owner, str) or not owner:
            raise BadOption(
                f"owner is {owner!r}; it must be a text that names the job and its input, the same in every run: "
                'take("load-2026-11-20", ids); nothing was taken'
            )
        id_list = listed(ids)
        columns = id_columns(id_list)
        headers = {**ids_headers(id_set), "Oncegate-Owner": quote(owner, safe=""), **scope_headers(scope)}
        body, what = codecs.ids_body(columns), f"take by {owner}"
        unknown = "whether the ids are taken; asking again is harmless"
        request = self.post(f"/ids:take{located(locate)}", what, unknown, headers, body)
        taken = yield from self.send(request, lambda reply: Taken(id_list, verdicts_of(reply, len(columns[0]), locate)))
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
        scope: RetryScope | None = None,
        digest_cols: Columns = (),
        id_set: str | None = None,
        locate: bool = False,
        spilled_ms: int | None = None,
    ) -> Steps[Produced]:
        """Appends rows, an Arrow stream, to a topic in one request, all or nothing. Raises BadOption.

        `spilled_ms`: when rows with ids were spilled, in ms since 1970, if they waited for the gateway.
        """
        ids = column_names(id_col)
        if not ids and (id_set is not None or locate):
            reason = "locate returns the first row of each id" if locate else "id_set names the scope of the rows' ids"
            raise BadOption(f"{reason}: name the ids by id_col; nothing was sent")
        parameters = {"id_col": joined(id_col), "key_col": joined(key_col), "digest_col": joined(digest_cols)}
        parameters |= ({"locate": "true"} if locate else {}) | ({} if id_set is None else {"id_set": id_set})
        parameters |= {} if spilled_ms is None else {"spilled_ms": str(spilled_ms)}
        headers = {"Content-Type": codecs.ARROW, "Accept": codecs.PACKED if ids else codecs.JSON}
        path, what = f"{topic_path(topic)}/records:produce{query(**parameters)}", f"produce {call} of {token[:8]}"
        unknown = "whether these rows were written"
        headers |= attempt_headers(token, call) | scope_headers(scope)
        request = self.post(path, what, unknown, headers, body)
        return self.send(request, lambda reply: produced_of(reply, codecs.rows_in(body) if ids else None, locate))

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
        """Creates the namespace, or changes its settings."""
        return self.put(
            "",
            f"namespace {self.namespace}",
            horizon_ms=horizon_ms,
            auto_create_topics=auto_create_topics,
            record_headers=record_headers,
            lease_expiry=lease_expiry,
            id_time=id_time,
            shadow=shadow,
            on_ledger_down=on_ledger_down,
        )

    def delete_namespace(self, confirm: str = "") -> Steps[None]:
        """Deletes the namespace; `confirm` must be its name unless it is empty."""
        what = f"delete namespace {self.namespace}"
        request = Request("DELETE", self._root + query(confirm=confirm), what, "whether the namespace is deleted")
        yield from self.send(request, nothing_of)
        self.tries.marks.forget()

    def describe(self) -> Steps[dict[str, Any]]:
        """Returns the namespace's settings and counters."""
        return self.get("", f"look at namespace {self.namespace}", members_of)

    def limits(self) -> Steps[dict[str, Any]]:
        """Returns the gateway's limits."""
        request = Request("GET", "/v1/limits", "look at the limits", "nothing; it only reads", {"Accept": codecs.JSON})
        return self.send(request, members_of)

    def explain(self, *columns: Any, id_set: str = "") -> Steps[dict[str, Any]]:
        """Returns everything that the gateway knows about an id, given as the values of its columns.

        Raises BadId; nothing was sent.
        """
        parameters = urlencode([*(("id", text_of(column)) for column in columns), ("id_set", id_set)])
        return self.get(f"/ids:explain?{parameters}", "explain", members_of)

    def put(self, path: str, made: str, **members: object) -> Steps[None]:
        """Creates or configures the resource at this path; members that are None are left out."""
        fields = {name: value for name, value in members.items() if value is not None}
        unknown = f"whether the {made.split()[0]} exists now, with these settings"
        request = Request("PUT", self._root + path, f"create {made}", unknown, JSON, json_body(fields))
        return self.send(request, nothing_of)

    def post(
        self,
        path: str,
        what: str,
        unknown: str,
        headers: Mapping[str, str] | None = None,
        body: bytes | memoryview = b"",
    ) -> Request:
        """Builds a POST below the namespace, for `send`. Raises BadOption for a body that is not bytes."""
        codecs.check_body(body)
        return Request("POST", self._root + path, what, unknown, headers or {}, body)

    def get(self, path: str, what: str, read: Callable[[Reply], T], accept: str = codecs.JSON) -> Steps[T]:
        """Sends a GET below the namespace and parses its reply."""
        request = Request("GET", self._root + path, what, "nothing; it only reads", {"Accept": accept})
        return self.send(request, read)

    def send(self, request: Request, read: Callable[[Reply], T], timeout_ms: int | None = None) -> Steps[T]:
        """Sends a request and parses the deciding reply with `read`. Raises Unreadable if that fails."""
        reply = yield from self.tries.of(request, timeout_ms)
        try:
            return read(reply)
        except (ValueError, KeyError, TypeError, pa.ArrowException, OncegateError) as error:
            raise Unreadable(
                f"{request.what}: the reply of {self.tries.address} cannot be parsed ({type(error).__name__}: "
                f"{error}); "
                f"compare the versions of client and gateway; unknown: {request.unknown}"
            ) from error


class LookedUp(Decided):
    """Result of `look_up`, which grants nothing."""

    @property
    def written(self) -> Any:
        """Ids that are written."""
        return self._those(self.verdicts.known)

    @property
    def held(self) -> Any:
        """Ids that a claim holds; if its lease has expired, its holder may have written them."""
        return self._those(self.verdicts.held)


def look_up(calls: Calls, ids: Ids, id_set: str | None = None) -> Steps[LookedUp]:
    """Returns the state of ids without claiming them. Raises BadId before anything is sent."""
    id_list = listed(ids)
    columns = id_columns(id_list)
    body, what = codecs.ids_body(columns), f"look-up of {len(columns[0])} ids"
    request = calls.post("/ids:lookup", what, "nothing; it only reads", ids_headers(id_set), body)
    return calls.send(request, lambda reply: LookedUp(id_list, verdicts_of(reply, len(columns[0]))))
