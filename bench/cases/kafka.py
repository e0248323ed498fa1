"""A ledger on Kafka: claims beside the log on this disk, rows beside a producer in Python, and how long starts take.

One broker of its own, unpinned: of the two cores the gateway has one, and broker and load share the other with the
gateway's waiting. The log is synced by this machine's disk, the topics by nobody: a broker acknowledges from memory.
"""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from statistics import median
from uuid import uuid4

from bench.cases import kafka_rows
from bench.cases.claims import beside
from bench.cases.setting import BATCH, Setting
from bench.load.server import Served, gateway
from bench.load.settled import wait_until_quiet
from bench.report.figures import Figure, interleaved
from deploy.kafka.cluster import Cluster

LOG = "the log on this disk"
# Ids a request, clients.
POINTS = ((1, 64), (1_000, 16), (10_000, 16))
STARTS = 3
# The default: a standby waits for so long without a word from its owner.
TAKEOVER_MS = 10_000
AFTER_KILL = f"from its owner's SIGKILL to the first claim, with takeover_ms={TAKEOVER_MS}"


def figures(setting: Setting) -> list[Figure]:
    """Claims at each point, rows into topics, then starts over what is known before anything is measured."""
    with Cluster(setting.scratch("kafka")) as cluster:
        found = [one for number, point in enumerate(POINTS) for one in _claims(setting, cluster, number, *point)]
        found += kafka_rows.figures(setting, cluster, cluster.ledger("rows"))
        return found + _starts(setting, cluster)


def _claims(setting: Setting, cluster: Cluster, number: int, ids: int, clients: int) -> list[Figure]:
    name = f"claim over Kafka, packed, {ids:,} ids, {clients} clients"
    setting.tell(name)
    folder = setting.scratch(name)
    with (
        _known(setting, folder, cluster.ledger(f"point{number}")) as kafka,
        _known(setting, folder / "log", None) as log,
    ):
        job = {"ids": ids, "clients": clients, "seconds": setting.plan.seconds, "live": setting.plan.live}
        works = {
            "": lambda: setting.load.run(kafka, "packed", **job),
            LOG: lambda: setting.load.run(log, "packed", **job),
        }
        return beside(name, interleaved(setting.plan.rounds, works))


@contextmanager
def _known(setting: Setting, folder: Path, ledger: str | None) -> Iterator[Served]:
    """A gateway that knows the live ids, and has nothing left to do."""
    folder.mkdir(exist_ok=True)
    with gateway(folder, ledger=ledger) as served:
        setting.load.run(served, "prefill", live=setting.plan.live, ids=BATCH, text=False)
        wait_until_quiet(served)
        yield served


def _starts(setting: Setting, cluster: Cluster) -> list[Figure]:
    """Starts anew over the live ids, and a second gateway that takes over from one that serves."""
    name = f"start over Kafka, {setting.plan.live:,} ids"
    setting.tell(name)
    folder, url = setting.scratch(name), f"{cluster.ledger('starts')}&takeover_ms={TAKEOVER_MS}"
    for ledger in (url, None):
        with _known(setting, folder, ledger):
            pass
    took = {ledger: [_start_s(folder, ledger) for _ in range(STARTS)] for ledger in (url, None)}
    with gateway(folder, ledger=url):
        follows_s = _start_s(setting.scratch("follower"), url)
    over = [_standby_s(setting.scratch(f"standby{number}"), folder, url) for number in range(STARTS)]
    own = Figure(name, median(took[url]), "s", runs=tuple(took[url]))
    return [
        own.against(LOG, median(took[None])),
        Figure(f"{name}: from an owner that serves", follows_s, "s"),
        Figure(f"{name}: by a standby, {AFTER_KILL}", median(over), "s", runs=tuple(over)),
    ]


def _standby_s(own: Path, folder: Path, ledger: str) -> float:
    """How long nobody is answered where a standby has read all, and its owner is killed: up to the first claim."""
    with (
        gateway(folder, ledger=ledger) as owner,
        gateway(own, ledger=ledger, settings={"ONCEGATE_STANDBY": "true"}) as standby,
    ):
        wait_until_quiet(standby)
        began_s = time.monotonic()
        owner.process.kill()
        while not _is_claimed(standby):
            time.sleep(0.01)
        return time.monotonic() - began_s


def _is_claimed(served: Served) -> bool:
    """Whether one new id is granted."""
    body = json.dumps({"token": uuid4().hex, "call": 0, "ids": [uuid4().hex]})
    connection = HTTPConnection("127.0.0.1", served.port)
    try:
        connection.request("POST", "/v1/namespaces/default/ids:claim", body, {"Content-Type": "application/json"})
        return connection.getresponse().status == 200
    finally:
        connection.close()


def _start_s(folder: Path, ledger: str | None) -> float:
    began_s = time.monotonic()
    with gateway(folder, ledger=ledger):
        return time.monotonic() - began_s
