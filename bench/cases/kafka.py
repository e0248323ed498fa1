"""Measures a ledger on Kafka: claims compared with the log on this disk, rows with a producer in Python, and starts.

The broker is not pinned. Of the two cores the gateway has one; broker and load share the other. The log is synced to
this machine's disk. The topics are not: a broker acknowledges from memory.
"""

from statistics import median

from bench.cases import kafka_rows
from bench.cases.claims import beside
from bench.cases.on_servers import AFTER_KILL, LOG, POINTS, TAKEOVER_MS, known, standby_s, start_s
from bench.cases.setting import Setting
from bench.load.server import gateway
from bench.report.figures import Figure, interleaved
from deploy.kafka.cluster import Cluster

STARTS = 3


def figures(setting: Setting) -> list[Figure]:
    """Measures claims at each point, rows into topics, then starts over the prefilled ids."""
    with Cluster(setting.scratch("kafka")) as cluster:
        all_figures = [
            figure for number, point in enumerate(POINTS) for figure in _claims(setting, cluster, number, *point)
        ]
        all_figures += kafka_rows.figures(setting, cluster, cluster.ledger("rows"))
        return all_figures + _starts(setting, cluster)


def _claims(setting: Setting, cluster: Cluster, number: int, ids: int, clients: int) -> list[Figure]:
    name = f"claim over Kafka, packed, {ids:,} ids, {clients} clients"
    setting.tell(name)
    folder = setting.scratch(name)
    with (
        known(setting, folder, cluster.ledger(f"point{number}")) as kafka,
        known(setting, folder / "log", None) as log,
    ):
        job = {"ids": ids, "clients": clients, "seconds": setting.plan.seconds, "live": setting.plan.live}
        works = {
            "": lambda: setting.load.run(kafka, "packed", **job),
            LOG: lambda: setting.load.run(log, "packed", **job),
        }
        return beside(name, interleaved(setting.plan.rounds, works))


def _starts(setting: Setting, cluster: Cluster) -> list[Figure]:
    """Measures restarts over the live ids, and the takeover by a second gateway from one that serves."""
    name = f"start over Kafka, {setting.plan.live:,} ids"
    setting.tell(name)
    folder, url = setting.scratch(name), f"{cluster.ledger('starts')}&takeover_ms={TAKEOVER_MS}"
    for ledger in (url, None):
        with known(setting, folder, ledger):
            pass
    took = {ledger: [start_s(folder, ledger) for _ in range(STARTS)] for ledger in (url, None)}
    with gateway(folder, ledger=url):
        follows_s = start_s(setting.scratch("follower"), url)
    over = [standby_s(setting.scratch(f"standby{number}"), folder, url) for number in range(STARTS)]
    own = Figure(name, median(took[url]), "s", runs=tuple(took[url]))
    return [
        own.against(LOG, median(took[None])),
        Figure(f"{name}: from an owner that serves", follows_s, "s"),
        Figure(f"{name}: by a standby, {AFTER_KILL}", median(over), "s", runs=tuple(over)),
    ]
