"""Measures a ledger on Redis: claims compared with the log on this disk, a ledger on Kafka and plain Redis; and starts.

The ledger's Redis and the broker are not pinned. Of the two cores the gateway has one, and they share the other with
the load. Redis syncs each append before its reply, as the log does; a broker never does.
"""

from statistics import median

from bench.cases.claims import beside
from bench.cases.on_servers import AFTER_KILL, LOG, POINTS, TAKEOVER_MS, Settings, known, standby_s, start_s
from bench.cases.setting import Setting
from bench.load.server import Served, redis
from bench.report.figures import Figure, interleaved
from bench.report.reaches import MULTI
from deploy.kafka.cluster import Cluster

KAFKA = "a ledger on Kafka"
STARTS = 3


def figures(setting: Setting) -> list[Figure]:
    """Measures claims at each point, then starts over the prefilled ids."""
    with redis(setting.scratch("ledgers"), core=None) as server, Cluster(setting.scratch("brokers")) as cluster:
        all_figures = [figure for point in POINTS for figure in _claims(setting, server, cluster, *point)]
    with redis(setting.scratch("starts"), core=None) as server:
        return all_figures + _starts(setting, server)


def _ledger(server: Served, prefix: str) -> str:
    return f"redis://127.0.0.1:{server.port}/{prefix}?bare_key=yes&takeover_ms={TAKEOVER_MS}"


def _claims(setting: Setting, server: Served, cluster: Cluster, ids: int, clients: int) -> list[Figure]:
    name = f"claim over Redis, packed, {ids:,} ids, {clients} clients"
    setting.tell(name)
    folder = setting.scratch(name)
    with (
        known(setting, folder, _ledger(server, f"point{ids}"), _witness(setting, name)) as on_redis,
        known(setting, folder / "log", None) as log,
        known(setting, folder / "kafka", cluster.ledger(f"beside{ids}")) as kafka,
    ):
        job = {"ids": ids, "clients": clients, "seconds": setting.plan.seconds, "live": setting.plan.live}
        works = {
            "": lambda: setting.load.run(on_redis, "packed", **job),
            LOG: lambda: setting.load.run(log, "packed", **job),
            KAFKA: lambda: setting.load.run(kafka, "packed", **job),
            MULTI: lambda: setting.on_redis(setting.redis, "multi", **job, sha=None, text=False),
        }
        return beside(name, interleaved(setting.plan.rounds, works))


def _witness(setting: Setting, name: str) -> Settings:
    return {"ONCEGATE_WITNESS": str(setting.scratch(f"witness of {name}"))}


def _starts(setting: Setting, server: Served) -> list[Figure]:
    """Measures restarts over the live ids, and the takeover by a standby."""
    name = f"start over Redis, {setting.plan.live:,} ids"
    setting.tell(name)
    folder, url = setting.scratch(name), _ledger(server, "starts")
    witness, its_own = _witness(setting, name), _witness(setting, "standbys")
    with known(setting, folder, url, witness):
        pass
    with known(setting, folder / "log", None):
        pass
    took = [start_s(folder, url, witness) for _ in range(STARTS)]
    log = [start_s(folder / "log", None) for _ in range(STARTS)]
    over = [standby_s(setting.scratch(f"redis standby{number}"), folder, url, its_own) for number in range(STARTS)]
    return [
        Figure(name, median(took), "s", runs=tuple(took)).against(LOG, median(log)),
        Figure(f"{name}: by a standby, {AFTER_KILL}", median(over), "s", runs=tuple(over)),
    ]
