"""One client process: sends prepared bodies over one keep-alive connection and counts.

python -m bench.load PORT KIND IDS SECONDS SEED     prints: ids answered, seconds, p50 ms, p99 ms
"""

import http.client
import json
import sys
import time
import uuid

import numpy as np
import pyarrow as pa

# Bodies are made before the clock starts; this bounds the memory of one client.
BODIES_BYTES = 400 << 20
REQUESTS_MAX = 20_000
PACKED = "application/vnd.oncegate.packed"
ARROW = "application/vnd.apache.arrow.stream"


def arrow_rows(rows: int, rng: np.random.Generator) -> bytes:
    """Rows of a 36-byte key and a 100-byte payload, as one IPC stream."""
    key = pa.array([str(uuid.UUID(bytes=rng.bytes(16))) for _ in range(rows)])
    payload = pa.array([rng.bytes(50).hex() for _ in range(rows)])
    batch = pa.record_batch([key, payload], names=["key", "payload"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


class Claims:
    """Bodies with nine new ids in ten; the tenth was in the body before."""

    def __init__(self, kind: str, ids: int, seed: int) -> None:
        self.kind, self.ids = kind, ids
        self.rng = np.random.default_rng(seed)
        self.last = self.rng.bytes(16 * ids)
        self.path = "/v1/namespaces/default/ids:claim"

    def request(self) -> tuple[str, bytes, dict[str, str]]:
        fresh = bytearray(self.rng.bytes(16 * self.ids))
        old = 16 * (self.ids // 10)
        fresh[:old] = self.last[-old:] if old else b""
        self.last = bytes(fresh)
        token = self.rng.bytes(16).hex()
        if self.kind == "packed":
            headers = {"Content-Type": PACKED, "Oncegate-Token": token, "Oncegate-Call": "0"}
            return self.path, self.last, headers
        ids = [self.last[at : at + 16].hex() for at in range(0, len(self.last), 16)]
        body = json.dumps({"token": token, "call": 0, "ids": ids}).encode()
        return self.path, body, {"Content-Type": "application/json"}


class Stages:
    """One chunk of rows after another, each under a token of its own."""

    def __init__(self, rows: int, seed: int) -> None:
        import base64
        import hashlib

        self.ids, self.rng = rows, np.random.default_rng(seed)
        self.body = arrow_rows(rows, self.rng)
        digest = base64.b64encode(hashlib.sha256(self.body).digest()).decode()
        self.headers = {"Content-Type": ARROW, "Content-Digest": f"sha-256=:{digest}:"}
        self.path = (
            f"/v1/namespaces/default/batches:stage?app=bench&version={seed}&topic=t&write_id=&owner=bench&chunk=0"
        )

    def request(self) -> tuple[str, bytes, dict[str, str]]:
        return self.path, self.body, {**self.headers, "Oncegate-Token": self.rng.bytes(16).hex()}


def run(port: int, requests: list[tuple[str, bytes, dict[str, str]]], ids: int, seconds: float) -> dict[str, float]:
    """Send the prepared requests one after another, for `seconds` at most."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    taken: list[float] = []
    begin = time.perf_counter()
    for path, body, headers in requests:
        start = time.perf_counter()
        connection.request("POST", path, body, headers)
        response = connection.getresponse()
        answer = response.read()
        taken.append(time.perf_counter() - start)
        if response.status != 200:
            raise RuntimeError(f"{response.status} {answer[:300]!r}")
        if time.perf_counter() - begin > seconds:
            break
    p50, p99 = np.percentile(taken, [50, 99]) * 1000
    return {"ids": ids * len(taken), "seconds": time.perf_counter() - begin, "p50_ms": p50, "p99_ms": p99}


def main() -> None:
    port, kind, ids, seconds, seed = sys.argv[1:]
    job = Stages(int(ids), int(seed)) if kind == "stage" else Claims(kind, int(ids), int(seed))
    requests = [job.request()]
    count = min(REQUESTS_MAX, BODIES_BYTES // (len(requests[0][1]) + 1_000))
    requests += [job.request() for _ in range(count - 1)]
    # The first of its kind may load what the gateway needs for it.
    run(int(port), requests[:1], job.ids, float(seconds))
    print("ready", flush=True)
    sys.stdin.readline()
    print(json.dumps(run(int(port), requests[1:], job.ids, float(seconds))))


if __name__ == "__main__":
    main()
