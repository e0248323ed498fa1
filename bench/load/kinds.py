"""Prepares the requests of each kind of run, and reads its responses."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.load import bodies, resp
from bench.load.bodies import U64
from oncegate_spark.protocol.packed import claim_text

PACKED, ARROW = "application/vnd.oncegate.packed", "application/vnd.apache.arrow.stream"
BUCKET = b"bench"
# Must differ from the gateway's paths: its server handles those before any application sees them.
FRONT_PATH = "/claim"
# Maximum size of the bodies of a run. They are prepared before the clock starts, so this bounds the load's memory.
PREPARED_BYTES = 256 << 20
# Ids or rows per second to prepare for, above the fastest actual rate of each.
PACKED_RATE, TEXT_RATE, REDIS_RATE, SINGLE_RATE, ROWS_RATE = 12e6, 5e6, 1.2e6, 60e3, 2e6
_PACKED_HEAD_BYTES = 24
_GRANTED = 1

Bools = NDArray[np.bool_]
Job = dict[str, Any]


@dataclass(frozen=True)
class Prepared:
    """The requests of a run, and how to check the responses.

    new: returns the ids that a response reports as new; None: responses are not checked.
    follow: builds a second request from a response, or returns None. The pair counts as one request.
    """

    requests: Sequence[bytes]
    answer_bytes: int = 0
    new: Callable[[bytes], Bools] | None = None
    known: Callable[[int, int], Bools] = bodies.is_known
    follow: Callable[[bytes], bytes | None] | None = None


def _ids(job: Job, rate: float, bytes_an_id: int) -> list[U64]:
    """Returns the ids of each request, for as many requests as the run can use."""
    ids = job["ids"]
    if job.get("rate"):
        count = int(job["rate"] * job["seconds"]) + 1
    else:
        rate = SINGLE_RATE if ids == 1 else rate
        count = min(int(rate * job["seconds"] / ids) + job["clients"] + 1, PREPARED_BYTES // (ids * bytes_an_id + 400))
    count = max(count, job["clients"] + 1)
    every = bodies.mixed(job["stream"], ids * count, job["live"])
    return [every[at : at + ids] for at in range(0, len(every), ids)]


def _tokens(count: int, stream: int) -> list[str]:
    digits = np.random.default_rng([stream, 1]).bytes(16 * count).hex()
    return [digits[at : at + 32] for at in range(0, len(digits), 32)]


def _post(path: str, headers: str, body: bytes) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n{headers}content-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def _claim(headers: str, body: bytes, path: str = "/v1/namespaces/default/ids:claim") -> bytes:
    return _post(path, headers, body)


def packed(job: Job) -> Prepared:
    """Prepares claims of packed ids."""
    return Prepared(_packed(job), new=_packed_new)


def _packed(job: Job, **path: str) -> list[bytes]:
    id_batches = _ids(job, PACKED_RATE, 16)
    head = f"content-type: {PACKED}\r\noncegate-call: 0\r\noncegate-token: "
    tokens = _tokens(len(id_batches), job["stream"])
    return [_claim(f"{head}{token}\r\n", ids.tobytes(), **path) for token, ids in zip(tokens, id_batches, strict=True)]


def packed_completed(job: Job) -> Prepared:
    """Prepares claims of packed ids, each completed after its response if it granted anything."""
    return Prepared(_packed(job), new=_packed_new, follow=_completion)


def _completion(answer: bytes) -> bytes | None:
    if not _packed_new(answer).any():
        return None
    body = answer.index(b"\r\n\r\n") + 4
    return _post(f"/v1/namespaces/default/claims/{claim_text(answer[body : body + 16])}:complete", "", b"")


def _packed_new(answer: bytes) -> Bools:
    """Returns which ids are GRANTED; the others are DUPLICATE, or SAME if a request contains a known id twice."""
    body = answer[answer.index(b"\r\n\r\n") + 4 :]
    count = int.from_bytes(body[20:24], "little")
    return np.frombuffer(body, np.uint8, count, _PACKED_HEAD_BYTES) == _GRANTED


def arrow(job: Job) -> Prepared:
    """Prepares claims of strings as Arrow streams with packed responses, like those of the Python and Spark clients."""
    id_batches = _ids(job, TEXT_RATE, 48)
    head = f"content-type: {ARROW}\r\naccept: {PACKED}\r\noncegate-call: 0\r\noncegate-token: "
    tokens = _tokens(len(id_batches), job["stream"])
    texts = (bodies.arrow_stream(bodies.text_of(ids)) for ids in id_batches)
    return Prepared(
        [_claim(f"{head}{token}\r\n", text) for token, text in zip(tokens, texts, strict=True)], new=_packed_new
    )


def json_in(job: Job) -> Prepared:
    """Prepares claims of strings as JSON with JSON responses."""
    return Prepared(_json(job), new=_json_new)


def _json(job: Job, **path: str) -> list[bytes]:
    id_batches = _ids(job, TEXT_RATE, 40)
    tokens = _tokens(len(id_batches), job["stream"])
    texts = (bodies.json_body(token, bodies.text_of(ids)) for token, ids in zip(tokens, id_batches, strict=True))
    return [_claim("content-type: application/json\r\n", text, **path) for text in texts]


def _json_new(answer: bytes) -> Bools:
    verdicts = json.loads(answer[answer.index(b"\r\n\r\n") + 4 :])["verdicts"]
    return np.array([verdict["verdict"] == "GRANTED" for verdict in verdicts])


def through_front(job: Job) -> Prepared:
    """Prepares the gateway's packed requests for `bench.load.front` over a Redis."""
    return Prepared(_packed(job, path=FRONT_PATH), new=_packed_new)


def empty(job: Job) -> Prepared:
    """Prepares packed requests for the front without state, whose responses are not checked."""
    return Prepared(_packed(job, path=FRONT_PATH))


def empty_text(job: Job) -> Prepared:
    """Prepares JSON requests for the front without state."""
    return Prepared(_json(job, path=FRONT_PATH))


def _keys(job: Job, ids: U64) -> NDArray[np.uint8]:
    return bodies.text_of(ids) if job.get("text") else resp.raw_ids(ids)


def raw(job: Job) -> Prepared:
    """Prepares `SET NX EX` for each id, with all commands of a request in one write."""
    requests = [resp.set_commands(_keys(job, ids)).tobytes() for ids in _ids(job, REDIS_RATE, 100)]
    return Prepared(requests, resp.SET_ANSWER_BYTES * job["ids"], resp.set_new)


def script(job: Job) -> Prepared:
    """Prepares calls of a script by its hash, with all ids of a request in one argument."""
    name, width = job["sha"].encode(), str(bodies.UUID_CHARS if job.get("text") else 16).encode()
    bucket = BUCKET + width
    id_batches = _ids(job, REDIS_RATE, 40)
    requests = [resp.command(b"EVALSHA", name, b"1", bucket, _keys(job, ids).tobytes(), width) for ids in id_batches]
    return Prepared(requests, resp.script_answer_bytes(job["ids"]), resp.script_new)


def multi(job: Job) -> Prepared:
    """Prepares one transaction per request, in one write, that looks up and adds all its ids."""
    width = bodies.UUID_CHARS if job.get("text") else 16
    bucket, ids = BUCKET + str(width).encode(), job["ids"]
    requests = [resp.transaction(bucket, _keys(job, batch)) for batch in _ids(job, REDIS_RATE, 2 * (width + 7))]
    # For a request of one id, the response is as long for a new id as for a known one: one digit.
    new = ids - int(bodies.is_known(0, ids).sum())
    return Prepared(requests, resp.transaction_answer_bytes(ids, new), resp.transaction_new)


def rows(job: Job) -> Prepared:
    """Prepares rows (a key and `row_bytes` of value) for a topic as Arrow streams; `id_col` deduplicates them."""
    ids, width = job["ids"], job["row_bytes"]
    count = min(int(ROWS_RATE * job["seconds"] / ids), PREPARED_BYTES // (ids * (width + 32))) + job["clients"] + 1
    tokens = _tokens(count, job["stream"])
    named = f"?id_col={job['id_col']}" if job.get("id_col") else ""
    path = f"/v1/namespaces/default/topics/{job['topic']}/records:produce{named}"
    head = f"content-type: {ARROW}\r\naccept: application/json\r\noncegate-call: 0\r\noncegate-token: "
    streams = (bodies.rows_stream(*bodies.records(job["stream"], number * ids, ids, width)) for number in range(count))
    return Prepared([_post(path, f"{head}{token}\r\n", stream) for token, stream in zip(tokens, streams, strict=True)])


KINDS: dict[str, Callable[[Job], Prepared]] = {
    "packed": packed,
    "packed_completed": packed_completed,
    "arrow": arrow,
    "json": json_in,
    "front": through_front,
    "empty": empty,
    "empty_text": empty_text,
    "raw": raw,
    "multi": multi,
    "lua": script,
    "rows": rows,
}

__all__ = ["KINDS", "Prepared"]
