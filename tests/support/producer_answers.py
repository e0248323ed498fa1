"""Answers of a scripted gateway to the registration of a producer."""

import json
from typing import Any

from tests.support.stub_gateway import Answer

STANDING: dict[str, Any] = {
    "producer_id": 3,
    "epoch": 7,
    "lease_ms": 30_000,
    "watermark": None,
    "claimed_to": 20,
    "resume_after": 12,
    "done": [[0, 12], [15, 16]],
    "truncated": False,
}


def answering(**members: Any) -> Answer:
    return Answer(body=json.dumps(members).encode())


def registered(**changed: Any) -> Answer:
    return answering(**{**STANDING, **changed})
