"""JSON requests to a test gateway, and its counts of waiting changes and answers."""

import http.client
import json
import re
from contextlib import closing
from typing import Any
from uuid import uuid4

from tests.support.gateway_process import GatewayProcess

WAIT_S = 60
_WAITING = re.compile(r"^oncegate_group_commit_(changes|answers)\{[^}]*\} (\d+)", re.MULTILINE)


def post(gateway: GatewayProcess, path: str, **body: Any) -> tuple[int, dict[str, Any]]:
    """Posts one request to the namespace `default`, without retries. Returns its status and document."""
    with closing(http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=WAIT_S)) as connection:
        connection.request(
            "POST", f"/v1/namespaces/default/{path}", json.dumps(body), {"Content-Type": "application/json"}
        )
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())


def claim(gateway: GatewayProcess, *ids: str, lease_ms: int = 30_000) -> tuple[int, dict[str, Any]]:
    """Claims ids under a new token."""
    return post(gateway, "ids:claim", token=uuid4().hex, call=0, ids=list(ids), lease_ms=lease_ms)


def produce(gateway: GatewayProcess, topic: str, id_: str, value: str) -> tuple[int, dict[str, Any]]:
    records = [{"key": id_, "value": value}]
    path = f"topics/{topic}/records:produce"
    return post(gateway, path, token=uuid4().hex, call=0, id_col=["key"], records=records)


def waiting(gateway: GatewayProcess) -> tuple[int, int]:
    """Returns the number of changes that wait for the next append, and of answers that wait for one to end."""
    with closing(http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=WAIT_S)) as connection:
        connection.request("GET", "/metrics")
        found = {name: int(count) for name, count in _WAITING.findall(connection.getresponse().read().decode())}
    return found["changes"], found["answers"]
