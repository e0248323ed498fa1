"""Compares rows written to users' Kafka topics through the gateway with a transactional producer in Python.

The gateway has one core and the load the other, as everywhere; the peer runs in the load process. One unpinned broker
acknowledges from memory. The cost of a record is the processor time of the gateway and of the load, without that of
the broker.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from bench.cases.setting import Setting
from bench.load.server import Served, gateway
from bench.report.figures import Figure, interleaved
from bench.report.reaches import CONFLUENT, CONFLUENT_BATCHES
from deploy.kafka.cluster import Cluster

PARTITIONS = 4
# Bytes of a value, rows per request, clients.
POINTS = ((100, 10_000, 8), (1_000, 2_000, 8), (100, 10_000, 1))
# Requests per transaction of the peer, about as many as in a group commit of the gateway.
REQUESTS_A_TRANSACTION = 4
# A commit takes a noticeable fraction of a second, so runs are longer to contain many of them.
SECONDS_FACTOR = 3
_PEERS = {CONFLUENT: "confluent_produce", CONFLUENT_BATCHES: "confluent_batches"}
Rows = Mapping[str, Any]


def figures(setting: Setting, cluster: Cluster, url: str) -> list[Figure]:
    """Measures records per second, records per second of processor time and latencies, compared with both peers.

    `url`: the ledger's URL.
    """
    with gateway(setting.scratch("rows"), ledger=url) as served:
        return [figure for point in POINTS for figure in _point(setting, cluster, served, *point)]


def _point(setting: Setting, cluster: Cluster, served: Served, row_bytes: int, rows: int, clients: int) -> list[Figure]:
    name = f"rows into Kafka, {row_bytes:,} bytes, {rows:,} a request, {clients} clients"
    setting.tell(name)
    job = {"row_bytes": row_bytes, "ids": rows, "clients": clients, "seconds": SECONDS_FACTOR * setting.plan.seconds}
    job |= {"bootstrap": cluster.bootstrap, "partitions": PARTITIONS}
    run = partial(_run, setting, cluster, served, job)
    works = {"": partial(run, "rows"), "ids": partial(run, "rows", id_col="key")}
    together = rows * (REQUESTS_A_TRANSACTION if clients > 1 else 1)
    works |= {peer: partial(run, kind, ids=together) for peer, kind in _PEERS.items()}
    runs = interleaved(setting.plan.rounds, works)
    own, by_ids = runs.pop(""), runs.pop("ids")
    named_rows = [(name, own), (f"{name}, each id once", by_ids)]
    return [
        figure for name, row in named_rows for peer, other in runs.items() for figure in _beside(name, row, peer, other)
    ]


def _run(setting: Setting, cluster: Cluster, served: Served, job: Rows, kind: str, **more: Any) -> dict[str, float]:
    """Runs a job on its own topic, which is deleted afterwards."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    topic = f"rows{setting.load.runs}"
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)
    rates = setting.load.run(served, kind, **{**job, "topic": topic, **more})
    admin.delete_topics([topic])[topic].result(30)
    cpu_s = rates["load_cpu_s"] + (rates["cpu_s"] if kind == "rows" else 0.0)
    return {**rates, "per_cpu_s": rates["sent"] / cpu_s}


def _beside(name: str, own: Rows, peer: str, other: Rows) -> list[Figure]:
    rate = Figure(
        name,
        own["rate"],
        "rows/s",
        p50_ms=own["p50_ms"],
        p99_ms=own["p99_ms"],
        core_share=own["cpu_s"] / own["seconds"],
        runs=own["runs"],
    )
    compared = [
        rate.against(peer, other["rate"]),
        Figure(f"{name}: per second of processor", own["per_cpu_s"], "rows/s").against(peer, other["per_cpu_s"]),
    ]
    if name.endswith(" 1 clients"):
        compared.append(Figure(f"{name}: commit", own["p50_ms"], "ms").against(peer, other["p50_ms"]))
    return compared
