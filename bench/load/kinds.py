"""The requests of each kind of run, and how its answers are read."""

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
# Not the gateway's: its server takes its own hot paths before any application sees them.
FRONT_PATH = "/claim"
# What one run prepares at most; bodies are made before the clock starts, so this bounds the memory of the load.
PREPARED_BYTES = 256 << 20
# More than the fastest of them answers.
PACKED_RATE, TEXT_RATE, REDIS_RATE, SINGLE_RATE, ROWS_RATE = 12e6, 5e6, 1.2e6, 60e3, 2e6
_PACKED_HEAD_BYTES = 24
_GRANTED = 1

Bools = NDArray[np.bool_]
Job = dict[str, Any]


@dataclass(frozen=True)
class Prepared:
    """`new` reads which ids an answer calls new, None where there is nothing to read; `known`: which are known.

    `follow` makes a second request of an answer, None where there is none to make; the first counts as answered once
    both are.
    """

    requests: Sequence[bytes]
    answer_bytes: int = 0
    new: Callable[[bytes], Bools] | None = None
    known: Callable[[int, int], Bools] = bodies.is_known
    follow: Callable[[bytes], bytes | None] | None = None


def _ids(job: Job, rate: float, bytes_an_id: int) -> list[U64]:
    """The ids of each request, as many requests as the run can use."""
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
    """Prepares requests for packed ids, and the reading of their answers."""
    return Prepared(_packed(job), new=_packed_new)


def _packed(job: Job, **path: str) -> list[bytes]:
    id_batches = _ids(job, PACKED_RATE, 16)
    head = f"content-type: {PACKED}\r\noncegate-call: 0\r\noncegate-token: "
    tokens = _tokens(len(id_batches), job["stream"])
    return [_claim(f"{head}{token}\r\n", ids.tobytes(), **path) for token, ids in zip(tokens, id_batches, strict=True)]


def packed_completed(job: Job) -> Prepared:
    """The same, each claim completed as soon as it is answered; one that granted nothing is no claim."""
    return Prepared(_packed(job), new=_packed_new, follow=_completion)


def _completion(answer: bytes) -> bytes | None:
    if not _packed_new(answer).any():
        return None
    body = answer.index(b"\r\n\r\n") + 4
    return _post(f"/v1/namespaces/default/claims/{claim_text(answer[body : body + 16])}:complete", "", b"")


def _packed_new(answer: bytes) -> Bools:
    """What is not new is DUPLICATE, or SAME where a known id was drawn twice for one request."""
    body = answer[answer.index(b"\r\n\r\n") + 4 :]
    count = int.from_bytes(body[20:24], "little")
    return np.frombuffer(body, np.uint8, count, _PACKED_HEAD_BYTES) == _GRANTED


def arrow(job: Job) -> Prepared:
    """Strings as an Arrow stream, answered packed, which is what the Python and Spark clients ask for."""
    id_batches = _ids(job, TEXT_RATE, 48)
    head = f"content-type: {ARROW}\r\naccept: {PACKED}\r\noncegate-call: 0\r\noncegate-token: "
    tokens = _tokens(len(id_batches), job["stream"])
    texts = (bodies.arrow_stream(bodies.text_of(ids)) for ids in id_batches)
    return Prepared(
        [_claim(f"{head}{token}\r\n", text) for token, text in zip(tokens, texts, strict=True)], new=_packed_new
    )


def json_in(job: Job) -> Prepared:
    """Strings as JSON, answered as JSON."""
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
    """The gateway's packed requests, to `bench.load.front` over a Redis."""
    return Prepared(_packed(job, path=FRONT_PATH), new=_packed_new)


def empty(job: Job) -> Prepared:
    """The same to a front that remembers nothing: there is nothing to check."""
    return Prepared(_packed(job, path=FRONT_PATH))


def empty_text(job: Job) -> Prepared:
    """JSON bodies to the front that remembers nothing."""
    return Prepared(_json(job, path=FRONT_PATH))


def _keys(job: Job, ids: U64) -> NDArray[np.uint8]:
    return bodies.text_of(ids) if job.get("text") else resp.raw_ids(ids)


def raw(job: Job) -> Prepared:
    """`SET NX EX` for each id, all of a request in one write."""
    requests = [resp.set_commands(_keys(job, ids)).tobytes() for ids in _ids(job, REDIS_RATE, 100)]
    return Prepared(requests, resp.SET_ANSWER_BYTES * job["ids"], resp.set_new)


def script(job: Job) -> Prepared:
    """A script by its hash, all ids of a request in one argument."""
    name, width = job["sha"].encode(), str(bodies.UUID_CHARS if job.get("text") else 16).encode()
    bucket = BUCKET + width
    id_batches = _ids(job, REDIS_RATE, 40)
    requests = [resp.command(b"EVALSHA", name, b"1", bucket, _keys(job, ids).tobytes(), width) for ids in id_batches]
    return Prepared(requests, resp.script_answer_bytes(job["ids"]), resp.script_new)


def multi(job: Job) -> Prepared:
    """All ids of a request looked up and added in one transaction and one write."""
    width = bodies.UUID_CHARS if job.get("text") else 16
    bucket, ids = BUCKET + str(width).encode(), job["ids"]
    requests = [resp.transaction(bucket, _keys(job, batch)) for batch in _ids(job, REDIS_RATE, 2 * (width + 7))]
    # Of a request of one id, one digit tells that it was new or not.
    new = ids - int(bodies.is_known(0, ids).sum())
    return Prepared(requests, resp.transaction_answer_bytes(ids, new), resp.transaction_new)


def rows(job: Job) -> Prepared:
    """Rows of a key and `row_bytes` of value for a topic, as Arrow streams; with `id_col` each id takes effect once."""
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
