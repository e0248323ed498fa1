"""Shared parts of the sections on ledgers on servers: prefilled gateways, starts and takeovers."""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from uuid import uuid4

from bench.cases.setting import BATCH, Setting
from bench.load.server import Served, gateway
from bench.load.settled import wait_until_quiet

LOG = "the log on this disk"
# Ids per request, clients.
POINTS = ((1, 64), (1_000, 16), (10_000, 16))
# The default: the silence of the owner after which a standby takes over.
TAKEOVER_MS = 10_000
AFTER_KILL = f"from its owner's SIGKILL to the first claim, with takeover_ms={TAKEOVER_MS}"
Settings = Mapping[str, str]


@contextmanager
def known(setting: Setting, folder: Path, ledger: str | None, settings: Settings | None = None) -> Iterator[Served]:
    """Yields a gateway that knows the live ids and is idle."""
    folder.mkdir(exist_ok=True)
    with gateway(folder, ledger=ledger, settings=settings) as served:
        setting.load.run(served, "prefill", live=setting.plan.live, ids=BATCH, text=False)
        wait_until_quiet(served)
        yield served


def standby_s(own: Path, folder: Path, ledger: str, settings: Settings | None = None) -> float:
    """Returns the seconds from a SIGKILL of the owner, with a caught-up standby, until the first claim succeeds."""
    texts = dict(settings or {})
    with (
        gateway(folder, ledger=ledger, settings=texts) as owner,
        gateway(own, ledger=ledger, settings=texts | {"ONCEGATE_STANDBY": "true"}) as standby,
    ):
        wait_until_quiet(standby)
        began_s = time.monotonic()
        owner.process.kill()
        while not _is_claimed(standby):
            time.sleep(0.01)
        return time.monotonic() - began_s


def start_s(folder: Path, ledger: str | None, settings: Settings | None = None) -> float:
    """Returns the seconds of a start until the gateway is ready."""
    began_s = time.monotonic()
    with gateway(folder, ledger=ledger, settings=settings):
        return time.monotonic() - began_s


def _is_claimed(served: Served) -> bool:
    """Returns whether a new id is granted."""
    body = json.dumps({"token": uuid4().hex, "call": 0, "ids": [uuid4().hex]})
    connection = HTTPConnection("127.0.0.1", served.port)
    try:
        connection.request("POST", "/v1/namespaces/default/ids:claim", body, {"Content-Type": "application/json"})
        return connection.getresponse().status == 200
    finally:
        connection.close()
