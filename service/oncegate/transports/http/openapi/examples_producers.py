"""Examples of producers', drivers' and lanes' messages."""

from typing import Any

from oncegate.transports.http.openapi.examples import TOKEN

PRODUCER = "events-3"
DRIVER = "b2c1f0de-0000-4000-8000-1234567890ab"
_CLAIM = {"token": TOKEN, "epoch": 7, "call": 0}
_STANDING: dict[str, Any] = {
    "producer": PRODUCER,
    "producer_id": 3,
    "epoch": 7,
    "watermark": 16,
    "claimed_to": 20,
    "resume_after": 17,
    "done": [[17, 17], [20, 20]],
}

INTERVALS_QUERY: dict[str, Any] = {"limit": 100, "after": 20}
DRIVER_REQUEST = {"token": TOKEN}
DRIVER_REPLY = {"driver": DRIVER, "epoch": 2, "batch": 17}
ACK_REQUEST = {"token": TOKEN, "epoch": 2, "upto": [{"producer": PRODUCER, "sequence": 20}], "batch": 18}
ACK_REPLY = {
    "driver": DRIVER,
    "watermarks": [{"producer": PRODUCER, "watermark": 20}],
    "batch": 18,
    "refused": [
        {
            "code": "NOT_DONE",
            "action": "stop",
            "detail": "open claims of batch 17 hold 2 ids",
            "batch": 17,
            "open_ids": 2,
            "claims": ["0b6f5c9e8d7a4b3c9f1e2d3c4b5a6978"],
        }
    ],
}
PRODUCER_REQUEST = {"token": TOKEN, "driver": DRIVER}
PRODUCER_REPLY = {**_STANDING, "lease_ms": 30_000, "truncated": False}
SEQUENCES_REQUEST = {**_CLAIM, "sequences": [17, 18, 20], "prev_sequence": 16}
SEQUENCES_REPLY = {
    "call": 0,
    "lease_ms": 30_000,
    "verdicts": [{"verdict": "DUPLICATE"}, {"verdict": "GRANTED"}, {"verdict": "GRANTED", "takeover": True}],
}
RESOLVE = {"outcome": "done", "who": "ada", "why": "its rows are in the sink, see ticket 4711"}
RESOLVE_SEQUENCES = {**RESOLVE, "first": 18, "last": 19}
RESOLVE_REPLY = {"outcome": "done", "resolved": 2}
SETTLE = _CLAIM
OPEN_LANE = {"producer": PRODUCER}
OPEN_LANE_REPLY = {
    "producer": PRODUCER,
    "lane": 7,
    "ledger": "5f0c3f6a8f1b4c0d9e2a7b6c5d4e3f21",
    "brokers": "broker-1:9092,broker-2:9092",
    "topic": "oncegate.default.direct",
    "partition": 3,
    "transactional_id": "oncegate.default/1/direct/7",
}
ASK_LANE = {"producer": PRODUCER, "first": 17, "last": 20}
ASK_LANE_REPLY = {"producer": PRODUCER, "duplicates": [[17, 18]]}
CLOSE = {"token": TOKEN, "epoch": 7}
CLOSE_REPLY = {"producer": PRODUCER, "epoch": 7}
EXPLAINED = {
    **_STANDING,
    "driver": DRIVER,
    "token": TOKEN,
    "lease_ms": 30_000,
    "lease_left_ms": 12_345,
    "open": [[18, 18]],
    "next": 20,
}


def settled(state: str, lease_ms: int = 0) -> dict[str, Any]:
    """Makes the answer to renew, complete or release of sequences."""
    return {"producer": PRODUCER, "call": 0, "state": state, "settled": 2, "lease_ms": lease_ms}
