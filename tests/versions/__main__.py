"""Creates the data of the present version for later versions to open: `python -m tests.versions`, once for each
release.

Writes tests/golden/versions/VERSION: a data folder with its witness (`data.tar.xz`), the folder of a broker whose
topics hold a ledger (`broker.tar.xz`), both of a gateway that was killed, and the gateway's answers (`known.json`).
"""

import json
import sys
import tarfile
import tempfile
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from deploy.kafka.cluster import Cluster
from oncegate import __version__
from oncegate_spark import Gateway
from tests.support.gateway_process import GatewayProcess
from tests.support.tree import ROOT
from tests.versions import history

VERSIONS = ROOT / "tests/golden/versions"
PREFIX = "golden"
# Small enough for a repository; a broker recreates its other topics.
SEGMENTS = {
    "log.index.size.max.bytes": "4096",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}


def main() -> int:
    """Creates everything for the present version; returns the exit status."""
    made = VERSIONS / __version__
    made.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        told = {"data": _folder(Path(folder), made), "broker": _broker(Path(folder), made)}
    (made / "known.json").write_text(json.dumps(told, indent=1) + "\n")
    sys.stdout.write(f"wrote {made}\n")
    return 0


def _folder(folder: Path, made: Path) -> object:
    served = GatewayProcess(folder)
    told = _written(served)
    _pack(made / "data.tar.xz", folder, "data", "data.witness")
    return told


def _broker(folder: Path, made: Path) -> object:
    (folder / "broker").mkdir()
    (folder / "beside").mkdir()
    with Cluster(folder / "broker", more=SEGMENTS) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([NewTopic(history.TOPIC, 1, 1)])[history.TOPIC].result(30)
        told = _written(GatewayProcess(folder / "beside", ledger=cluster.ledger(PREFIX)))
    _pack(made / "broker.tar.xz", folder, "broker/broker-1")
    return told


def _written(served: GatewayProcess) -> object:
    with served, Gateway(served.url) as gateway:
        history.write(gateway)
        return history.answers_about_history(gateway)


def _pack(archive: Path, folder: Path, *names: str) -> None:
    with tarfile.open(archive, "w:xz", preset=9) as tar:
        for name in names:
            tar.add(folder / name, arcname=name)


if __name__ == "__main__":
    raise SystemExit(main())
