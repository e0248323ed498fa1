"""Plays the scenarios over HTTP and gRPC against a gateway of any version: `python -m tests.versions.asking PORT
GRPC_PORT`.

The requests come from the first version of `oncegate` on the path: its messages, verdicts and claim ids. Each scenario
has its own namespace. Prints {scenario: {door: [answer to each call]}} as JSON.
"""

import asyncio
import importlib
import json
import sys
from dataclasses import dataclass, field
from typing import Any

import grpc

# `tests.support` imports these names from their place in this version.
MOVED = {"oncegate.runtime.logging": ("LogObserver", "oncegate.runtime.log_observer")}
for module, (name, before) in MOVED.items():
    if not hasattr(importlib.import_module(module), name):
        setattr(importlib.import_module(module), name, getattr(importlib.import_module(before), name))

from tests.support.door_scenarios import DOORS, SCENARIOS, play, summary  # noqa: E402
from tests.support.doors import NS  # noqa: E402
from tests.support.grpc_app import Both  # noqa: E402
from tests.support.http_app import JSON, Reply, read_reply, request  # noqa: E402


@dataclass
class Http:
    """A gateway's HTTP port on 127.0.0.1; requests to the default namespace go to this one."""

    port: int
    namespace: str

    async def send(self, raw: bytes) -> Reply:
        head, _, body = raw.partition(b"\r\n\r\n")
        head = head.replace(NS.encode(), f"/v1/namespaces/{self.namespace}".encode(), 1)
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(head + b"\r\n\r\n" + body)
            return await asyncio.wait_for(read_reply(reader), 20)
        finally:
            writer.close()


@dataclass(frozen=True)
class Remote(Both):
    """HTTP and gRPC of a gateway in another process."""

    namespace: str = field(default="default")

    async def call(self, name: str, message: Any, **more: Any) -> Any:
        message.namespace = self.namespace
        return await super().call(name, message, **more)


async def answers_of(port: int, grpc_port: int) -> dict[str, dict[str, list[str]]]:
    found: dict[str, dict[str, list[str]]] = {}
    async with grpc.aio.insecure_channel(f"127.0.0.1:{grpc_port}") as channel:
        for number, (name, steps) in enumerate(SCENARIOS.items()):
            for way, door in DOORS.items():
                http = Http(port, f"{way}-{number}")
                made = await http.send(request("PUT", NS, b"{}", Content_Type=JSON))
                assert made.status in (200, 201), made.body
                answers = await play(door(Remote(http, None, channel, http.namespace)), steps)
                found.setdefault(name, {})[way] = list(map(summary, answers))
    return found


if __name__ == "__main__":
    json.dump(asyncio.run(answers_of(int(sys.argv[1]), int(sys.argv[2]))), sys.stdout)
