"""Calls for named batches, which are staged and then published exactly once. No I/O."""

import json
from collections.abc import Mapping, Sequence

from oncegate_spark.errors import Refused
from oncegate_spark.protocol import codecs
from oncegate_spark.protocol.answers import Committed, Staged
from oncegate_spark.protocol.calls.namespace import Calls
from oncegate_spark.protocol.calls.steps import JSON, Steps, joined, json_body, offsets_of, query
from oncegate_spark.protocol.columns import Columns
from oncegate_spark.protocol.effort import Reply, Request
from oncegate_spark.protocol.names import BatchName

NEW_MEMBER = "reads_digest"


def stage(
    calls: Calls, name: BatchName, owner: str, token: str, chunk: int, body: bytes | memoryview, key_col: Columns = ()
) -> Steps[Staged]:
    """Stages rows, an Arrow stream, for a batch; they are invisible until its commit."""
    codecs.check_body(body)
    members = {**name.members(), "owner": owner, "chunk": str(chunk), "key_col": joined(key_col)}
    headers = {"Content-Type": codecs.ARROW, "Content-Digest": codecs.content_digest(body), "Oncegate-Token": token}
    path, what = f"/batches:stage{query(**members)}", f"stage of chunk {chunk} of {token[:8]} for {name}"
    request = calls.post(path, what, "whether this chunk is staged; it is not published", headers, body)

    def read(reply: Reply) -> Staged:
        document = json.loads(reply.body)
        fingerprint = int.from_bytes(bytes.fromhex(document["fingerprint"]), "little")
        return Staged(document["outcome"] == "COMMITTED", document["rows"], fingerprint)

    return calls.send(request, read)


def commit(calls: Calls, name: BatchName, order: Mapping[str, object]) -> Steps[Committed]:
    """Publishes everything staged under a batch's name, all or nothing."""
    members = ("outcome", "rows", "suppressed_rows", "takeover_rows", "first_of_app")

    def request(order: Mapping[str, object]) -> Request:
        body, what = json_body({"name": name.members(), **order}), f"commit of {name}"
        return calls.post("/batches:commit", what, "whether the batch is published", JSON, body)

    def read(reply: Reply) -> Committed:
        document = json.loads(reply.body)
        counts = {member: document[member] for member in members}
        more = {member: document.get(member) for member in ("warning", "higher_version")}
        return Committed(**counts, offsets=offsets_of(document), **more)

    try:
        return (yield from calls.send(request(order), read))
    except Refused as error:
        # A gateway of the previous version rejects this member, and compares inputs by the others.
        if NEW_MEMBER not in order or NEW_MEMBER not in str(error):
            raise
        less = {member: value for member, value in order.items() if member != NEW_MEMBER}
        return (yield from calls.send(request(less), read))


def abort(calls: Calls, name: BatchName, tokens: Sequence[str], timeout_ms: int | None = None) -> Steps[bool]:
    """Drops the stages of these tokens; returns True if the batch is committed, in which case nothing is dropped."""
    body, what = json_body({"name": name.members(), "tokens": list(tokens)}), f"abort of {name}"
    request = calls.post("/batches:abort", what, "whether the stages are dropped", JSON, body)
    return calls.send(request, lambda reply: bool(json.loads(reply.body)["outcome"] == "COMMITTED"), timeout_ms)


def source_offsets(calls: Calls, app: str, topic: str, write_id: str = "") -> Steps[str]:
    """Returns the source offsets to resume from, stored with an app's batches or a driver's acks. Raises NotFound."""
    path = f"/batches:offsets{query(app=app, topic=topic, write_id=write_id)}"
    what = f"look at the source offsets of {app} in topic {topic}"
    return calls.get(path, what, lambda reply: str(json.loads(reply.body)["source_offsets"]))
