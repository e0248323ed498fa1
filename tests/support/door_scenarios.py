"""Scenarios that both HTTP and gRPC must answer alike, and the comparison of their answers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from oncegate.transports.decode.identifiers import claim_bytes
from tests.support.doors import Door, GrpcDoor, HttpDoor, Refused

TOKEN, OTHER, THIRD = (bytes(range(at, at + 16)) for at in (0, 16, 32))
A, B, C = (letter * 16 for letter in (b"a", b"b", b"c"))
ROWS = pa.record_batch({"id": ["x", "y", "x"], "n": [1, 2, 3], "seq": pa.array([1, 2, 3], pa.uint64())})
LATER = pa.record_batch({"id": ["y", "z"], "n": [4, 5], "seq": pa.array([3, 4], pa.uint64())})
NAME = {"app": "query", "version": "7", "topic": "departures"}


@dataclass(frozen=True)
class FromAnswer:
    """A placeholder for a value from an earlier answer: its claim or its fingerprint, as bytes."""

    call: int
    field: str

    def value_in(self, answers: Sequence[Any]) -> bytes:
        text = answers[self.call][self.field]
        return claim_bytes(text) if self.field == "claim" else bytes.fromhex(text)


def claim(expected: str, token: bytes, call: int, **more: Any) -> tuple[str, dict[str, Any], str]:
    return "claim", {"token": token, "call": call, **more}, expected


def settle(expected: str, verb: str, of: int, **more: Any) -> tuple[str, dict[str, Any], str]:
    return verb, {"claim": FromAnswer(of, "claim"), **more}, expected


def produce(expected: str, token: bytes, call: int, rows: Any = ROWS, **more: Any) -> tuple[str, dict[str, Any], str]:
    return "produce", {"topic": "t", "token": token, "call": call, "rows": rows, **more}, expected


def stage(expected: str, token: bytes, chunk: int = 0, **more: Any) -> tuple[str, dict[str, Any], str]:
    request = {"name": NAME, "owner": "run:1", "token": token, "chunk": chunk, "rows": ROWS}
    return "stage", {**request, **more}, expected


def commit(expected: str, nonce: bytes, token: bytes, of: int, rows: int = 3, **more: Any) -> Any:
    winner = {"token": token, "chunks": 1, "rows": rows, "fingerprint": FromAnswer(of, "fingerprint")}
    return "commit", {"name": NAME, "nonce": nonce, "winners": [winner], **more}, expected


def producer(expected: str, token: bytes, **more: Any) -> tuple[str, dict[str, Any], str]:
    return "register_producer", {"producer": "p-1", "token": token, "driver": "load", **more}, expected


def driver(expected: str, token: bytes) -> tuple[str, dict[str, Any], str]:
    return "register_driver", {"driver": "load", "token": token}, expected


def ack(expected: str, token: bytes, epoch: int = 1, **more: Any) -> tuple[str, dict[str, Any], str]:
    return "ack", {"driver": "load", "token": token, "epoch": epoch, **more}, expected


def sequenced(producer: str = "p-1", epoch: int = 1) -> dict[str, Any]:
    return {"producer": producer, "epoch": epoch, "sequence_col": "seq"}


SCENARIOS: dict[str, list[tuple[str, dict[str, Any], str]]] = {
    "ids are claimed, completed and then known": [
        claim("GRANTED GRANTED SAME", TOKEN, 0, packed=A + B + A),
        claim("GRANTED GRANTED SAME", TOKEN, 0, packed=A + B + A),
        settle("DONE", "complete", 0, result=b"where"),
        settle("DONE", "complete", 0, result=b"elsewhere"),
        claim("DUPLICATE GRANTED", OTHER, 0, packed=A + C),
        settle("DONE", "release", 0),
    ],
    "a lease is renewed, then given back": [
        claim("GRANTED", TOKEN, 0, packed=A, lease_ms=60_000),
        settle("OPEN", "renew", 0),
        claim("BUSY", OTHER, 0, packed=A),
        settle("RELEASED", "release", 0),
        claim("GRANTED", OTHER, 1, packed=A),
    ],
    "sets of ids and batches are apart": [
        claim("GRANTED GRANTED", TOKEN, 0, rows=pa.record_batch({"id": ["x", "y"]}), id_set="invoices"),
        claim("GRANTED GRANTED", TOKEN, 1, rows=pa.record_batch({"id": ["x", "y"]})),
        claim("GRANTED", OTHER, 0, packed=A, driver="load", batch=4),
        claim("BUSY", THIRD, 0, packed=A, driver="load", batch=4),
    ],
    "claims that are refused": [
        claim("BAD_REQUEST", b"short", 0, packed=A),
        claim("BAD_REQUEST", TOKEN, 0, packed=A[:8]),
        claim("BAD_REQUEST", TOKEN, 0, packed=A, batch=1),
        claim("BAD_REQUEST", TOKEN, 0, packed=A, lease_ms=0),
        claim("NULL_ID", TOKEN, 0, rows=pa.record_batch({"id": ["x", None]})),
        claim("GRANTED", TOKEN, 0, packed=A),
        claim("TOKEN_REUSED", TOKEN, 0, packed=B),
        ("complete", {"claim": OTHER}, "UNKNOWN_CLAIM"),
    ],
    "rows are written once by their ids": [
        produce("GRANTED GRANTED SAME", TOKEN, 0, id_col=["id"]),
        produce("DUPLICATE DUPLICATE SAME", TOKEN, 0, id_col=["id"]),
        produce("DUPLICATE GRANTED", OTHER, 0, rows=LATER, id_col=["id"], key_col=["id"]),
        produce("GRANTED GRANTED SAME", OTHER, 1, id_col=["id"], id_set="other"),
        produce("GRANTED GRANTED CONFLICT", THIRD, 0, id_col=["id"], digest_col=["n"], id_set="third"),
        produce("CONFLICT GRANTED", THIRD, 1, rows=LATER, id_col=["id"], digest_col=["n"], id_set="third"),
        produce("GRANTED GRANTED SAME", THIRD, 2, id_col=["id"], id_set="of a batch", driver="load", batch=1),
    ],
    "rows without ids are written again": [produce("3 rows", TOKEN, 0), produce("3 rows", TOKEN, 0)],
    "rows that are refused": [
        produce("BAD_REQUEST", TOKEN, 0, topic="-no topic"),
        produce("BAD_REQUEST", TOKEN, 0, id_col=["none"]),
        produce("BAD_REQUEST", TOKEN, 0, id_col=["id", "id"]),
        produce("BAD_REQUEST", TOKEN, 0, id_set="of nothing"),
        produce("BAD_REQUEST", TOKEN, 0, digest_col=["n"]),
        produce("BAD_REQUEST", TOKEN, 0, producer="p-1"),
        produce("BAD_REQUEST", TOKEN, 0, id_col=["id"], **sequenced()),
        produce("UNKNOWN_PRODUCER", TOKEN, 0, **sequenced()),
        produce("3 rows", TOKEN, 0),
        produce("SCHEMA", TOKEN, 1, rows=pa.record_batch({"n": ["text"]})),
    ],
    "a batch is staged, committed, and repeated": [
        stage("STAGED", TOKEN),
        commit("COMMITTED", TOKEN, TOKEN, 0, run="r" * 8, digest=b"d" * 32, source_offsets="7"),
        commit("COMMITTED", TOKEN, TOKEN, 0, run="r" * 8, digest=b"d" * 32, source_offsets="7"),
        stage("COMMITTED", OTHER),
        commit("DUPLICATE", OTHER, OTHER, 3, digest=b"d" * 32),
        commit("BATCH_CONFLICT", THIRD, TOKEN, 0, digest=b"e" * 32),
    ],
    "a batch without a source is compared by its rows": [
        stage("STAGED", TOKEN),
        commit("COMMITTED", TOKEN, TOKEN, 0),
        stage("COMMITTED", OTHER, rows=LATER),
        commit("BATCH_CONFLICT", OTHER, OTHER, 2, 2),
        commit("DUPLICATE", OTHER, OTHER, 2, 2, on_replay_mismatch="first_wins"),
    ],
    "stages and commits that are refused": [
        stage("BAD_REQUEST", TOKEN, sha256=bytes(32)),
        stage("BAD_REQUEST", TOKEN, owner=""),
        stage("BAD_REQUEST", TOKEN, name=NAME | {"app": ""}),
        stage("BAD_REQUEST", b"short"),
        stage("STAGED", TOKEN, key_col=["id"]),
        commit("MISSING_STAGE", TOKEN, OTHER, 4),
        commit("BAD_REQUEST", TOKEN, TOKEN, 4, digest=b"short"),
        commit("BAD_REQUEST", TOKEN, TOKEN, 4, run=""),
    ],
    "a producer writes in order, and its driver acks": [
        driver("epoch 1", TOKEN),
        ack("UNKNOWN_PRODUCER", TOKEN, upto=[{"producer": "p-1", "sequence": 2}]),
        producer("epoch 1", OTHER, lease_ms=60_000),
        produce("GRANTED GRANTED GRANTED", OTHER, 0, **sequenced()),
        produce("DUPLICATE GRANTED", OTHER, 1, rows=LATER, prev_sequence=2, **sequenced()),
        ack("acked", TOKEN, upto=[{"producer": "p-1", "sequence": 2}], batch=0, topic="t", source_offsets="7"),
        producer("PRODUCER_BUSY", THIRD),
        producer("epoch 1", OTHER, lease_ms=60_000, gaps="allow"),
        driver("epoch 2", THIRD),
        ack("FENCED", TOKEN),
        ack("NOT_DRIVER", OTHER, 2),
        driver("FENCED", TOKEN),
    ],
    "sequences with payloads are compared until they are acked": [
        driver("epoch 1", TOKEN),
        producer("epoch 1", OTHER, lease_ms=60_000),
        produce("GRANTED GRANTED GRANTED", OTHER, 0, digest_col=["n"], **sequenced()),
        produce("DUPLICATE DUPLICATE DUPLICATE", OTHER, 1, digest_col=["n"], **sequenced()),
        produce("CONFLICT GRANTED", OTHER, 2, rows=LATER, digest_col=["n"], **sequenced()),
        produce("DUPLICATE DUPLICATE", OTHER, 3, rows=LATER, **sequenced()),
        produce("BAD_REQUEST", OTHER, 4, digest_col=["none"], **sequenced()),
        ack("acked", TOKEN, upto=[{"producer": "p-1", "sequence": 3}]),
        produce("STALE CONFLICT", OTHER, 5, rows=LATER, digest_col=["id"], **sequenced()),
    ],
    "a batch is not acked while its ids are open": [
        driver("epoch 1", TOKEN),
        claim("GRANTED", OTHER, 0, packed=A, driver="load", batch=4),
        ack("NOT_DONE", TOKEN, batch=4),
        settle("DONE", "complete", 1),
        ack("acked", TOKEN, batch=4),
        claim("STALE", OTHER, 1, packed=A, driver="load", batch=4),
        ack("OLDER_BATCH", TOKEN, batch=3),
    ],
    "registrations and acks that are refused": [
        driver("BAD_REQUEST", b"short"),
        producer("BAD_REQUEST", b"short"),
        producer("BAD_REQUEST", TOKEN, driver=""),
        producer("BAD_REQUEST", TOKEN, lease_ms=0),
        producer("epoch 1", TOKEN, gaps="refuse"),
        produce("GAP", TOKEN, 0, rows=ROWS.filter(pa.array([True, False, True])), **sequenced()),
        driver("epoch 1", TOKEN),
        ack("UNKNOWN_DRIVER", TOKEN, 7),
        ack("BAD_REQUEST", TOKEN, 2**63),
        ack("BAD_REQUEST", TOKEN, upto=[{"producer": "p-1", "sequence": 2**64 - 1}]),
        ack("BAD_REQUEST", TOKEN, source_offsets="7"),
    ],
}


# The transports by name.
DOORS: dict[str, Callable[[Any], Door]] = {"http": HttpDoor, "grpc": GrpcDoor}


async def play(asking: Door, steps: Sequence[tuple[str, dict[str, Any], str]]) -> list[Any]:
    """Makes the calls of a scenario in order and returns their answers."""
    answers: list[Any] = []
    for call, asked, _ in steps:
        answers.append(await asking.ask(call, filled(asked, answers)))
    return answers


def filled(asked: Any, answers: Sequence[Any]) -> Any:
    if isinstance(asked, FromAnswer):
        return asked.value_in(answers)
    if isinstance(asked, dict):
        return {name: filled(value, answers) for name, value in asked.items()}
    return [filled(item, answers) for item in asked] if isinstance(asked, list) else asked


def summary(answer: Any) -> str:
    """Summarizes an answer in the words of the table above."""
    if isinstance(answer, Refused):
        return answer.code
    if "verdicts" in answer:
        return " ".join(one["verdict"] for one in answer["verdicts"])
    if refused := answer.get("refused"):
        return " ".join(part["code"] for part in refused)
    if "epoch" in answer:
        return f"epoch {answer['epoch']}"
    rows = f"{answer['rows']} rows" if "rows" in answer else "acked"
    return str(answer.get("outcome") or answer.get("state") or rows)


# Random in each gateway, or dependent on elapsed time.
_OWN = ("claim", "claims", "fingerprint", "lease_left_ms", "detail")


def comparable(answer: Any) -> Any:
    if isinstance(answer, Refused):
        return answer.code, answer.action, answer.effect, answer.retry_after_ms is None
    return without(answer)


def without(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: item is not None if name in _OWN else without(item) for name, item in value.items()}
    return list(map(without, value)) if isinstance(value, list) else value
