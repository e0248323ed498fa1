"""A ledger on Kafka: claims beside the log on this disk, rows beside a producer in Python, and how long starts take.

One broker of its own, unpinned: of the two cores the gateway has one, and broker and load share the other with the
gateway's waiting. The log is synced by this machine's disk, the topics by nobody: a broker acknowledges from memory.
"""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from statistics import median

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


def figures(setting: Setting) -> list[Figure]:
    """Claims at each point, rows into topics, then starts over what is known before anything is measured."""
    with Cluster(setting.scratch("kafka")) as cluster:
        found = [one for number, point in enumerate(POINTS) for one in _claims(setting, cluster, number, *point)]
        found += kafka_rows.figures(setting, cluster, _url(cluster, "rows"))
        return found + _starts(setting, cluster)


def _url(cluster: Cluster, prefix: str) -> str:
    return f"kafka://{cluster.bootstrap}/{prefix}?replication=1&min_insync=1&bare_key=yes"


def _claims(setting: Setting, cluster: Cluster, number: int, ids: int, clients: int) -> list[Figure]:
    name = f"claim over Kafka, packed, {ids:,} ids, {clients} clients"
    setting.tell(name)
    folder = setting.scratch(name)
    with (
        _known(setting, folder, _url(cluster, f"point{number}")) as kafka,
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
    folder, url = setting.scratch(name), _url(cluster, "starts")
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
        Figure(f"{name}: by a standby, from the owner's last beat", median(over), "s", runs=tuple(over)),
    ]


def _standby_s(own: Path, folder: Path, ledger: str) -> float:
    """How long nobody serves where a standby has read all, and its owner stops in order."""
    with ExitStack() as standing, gateway(folder, ledger=ledger):
        following = gateway(own, ledger=ledger, settings={"ONCEGATE_STANDBY": "true"})
        standby = standing.enter_context(following)
        wait_until_quiet(standby)
        taken = standing.pop_all()
    began_s = time.monotonic()
    with taken:
        while not _is_ready(standby):
            time.sleep(0.01)
        return time.monotonic() - began_s


def _is_ready(served: Served) -> bool:
    connection = HTTPConnection("127.0.0.1", served.port)
    try:
        connection.request("GET", "/healthz/ready")
        return connection.getresponse().status == 200
    finally:
        connection.close()


def _start_s(folder: Path, ledger: str | None) -> float:
    began_s = time.monotonic()
    with gateway(folder, ledger=ledger):
        return time.monotonic() - began_s
