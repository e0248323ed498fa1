"""deploy/compose.yaml matches deploy/kafka. The tests need no Docker, so they do not run the containers."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.kafka.__main__ import FIRST_PORT
from deploy.kafka.cluster import CLUSTER_ID, HEAP
from deploy.kafka.jars import BROKER, HERE
from deploy.kafka.probe import ADDRESS
from deploy.kafka.properties import Ports, properties

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text())
BROKERS = {name: service for name, service in COMPOSE["services"].items() if name.startswith("kafka-")}
PORTS = [Ports(FIRST_PORT + n, FIRST_PORT + 10_000 + n) for n in range(3)]
PROVISIONING = ROOT / "deploy/grafana/provisioning"
PROMETHEUS = "127.0.0.1:9090"
# The image's data folder, and its variables that are not Kafka properties.
DATA = "/var/lib/kafka/data"
OTHERS = {"CLUSTER_ID": CLUSTER_ID, "KAFKA_HEAP_OPTS": f"-Xms{HEAP} -Xmx{HEAP}"}


def variable(name: str) -> str:
    """Returns the image's variable for a property."""
    return "KAFKA_" + name.upper().replace(".", "_")


@pytest.mark.parametrize("node", [1, 2, 3])
def test_a_broker_has_the_properties_of_make_kafka_and_no_others(node: int) -> None:
    wanted = {variable(name): value for name, value in properties(ROOT, node, PORTS).items()}
    assert BROKERS[f"kafka-{node}"]["environment"] == {**wanted, "KAFKA_LOG_DIRS": DATA, **OTHERS}


def test_there_are_as_many_brokers_as_the_properties_know_of_each_with_a_volume_of_its_own() -> None:
    assert len(BROKERS) == len(PORTS)
    for name, broker in BROKERS.items():
        assert broker["volumes"] == [f"{name}:{DATA}"]
    assert set(COMPOSE["volumes"]) == {*BROKERS, "gateway", "redis", "prometheus", "grafana"}


def test_the_brokers_are_of_the_version_that_is_tested_from_jars() -> None:
    (version,) = re.findall(r" kafka_2\.13-(\S+)\.jar$", (HERE / BROKER.hashes).read_text(), re.MULTILINE)
    assert {broker["image"] for broker in BROKERS.values()} == {f"apache/kafka:{version}"}


def test_a_brokers_health_is_asked_where_it_listens() -> None:
    for ports, broker in zip(PORTS, BROKERS.values(), strict=True):
        assert broker["healthcheck"]["test"].endswith(f"{ADDRESS}:{ports.clients}")
        assert broker["healthcheck"]["retries"]


def test_nothing_listens_beyond_this_machine() -> None:
    services = COMPOSE["services"].values()
    assert {service["network_mode"] for service in services} == {"host"}
    assert not [service for service in services if "ports" in service]
    assert "--bind 127.0.0.1" in COMPOSE["services"]["redis"]["command"]
    assert f"--web.listen-address={PROMETHEUS}" in COMPOSE["services"]["prometheus"]["command"]
    assert COMPOSE["services"]["grafana"]["environment"]["GF_SERVER_HTTP_ADDR"] == "127.0.0.1"


def test_prometheus_scrapes_the_gateway_by_the_rules_that_are_tested_and_grafana_asks_it() -> None:
    config = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yaml").read_text())
    (port,) = re.findall(r'"--port", "(\d+)"', (ROOT / "Dockerfile").read_text())
    assert config["scrape_configs"][0]["static_configs"] == [{"targets": [f"127.0.0.1:{port}"]}]
    assert [(ROOT / "deploy/prometheus" / name).exists() for name in config["rule_files"]] == [True]
    assert mounted("prometheus")["/etc/prometheus"] == ROOT / "deploy/prometheus"
    assert "--config.file=/etc/prometheus/prometheus.yaml" in COMPOSE["services"]["prometheus"]["command"]
    source = yaml.safe_load((PROVISIONING / "datasources/prometheus.yaml").read_text())["datasources"][0]
    assert source["url"] == f"http://{PROMETHEUS}"


def test_grafana_reads_the_dashboards_from_the_configured_folder() -> None:
    provider = yaml.safe_load((PROVISIONING / "dashboards/oncegate.yaml").read_text())["providers"][0]
    assert mounted("grafana")["/etc/grafana/provisioning"] == PROVISIONING
    assert mounted("grafana")[provider["options"]["path"]] == ROOT / "deploy/grafana/dashboards"


def test_redis_keeps_what_a_ledger_needs() -> None:
    command = COMPOSE["services"]["redis"]["command"]
    assert [option in command for option in ("--appendonly yes", "--appendfsync always", "noeviction")] == [True] * 3


def mounted(service: str) -> dict[str, Path]:
    """Returns the project's folders that a service mounts read-only, by mount point."""
    binds = [volume.split(":") for volume in COMPOSE["services"][service]["volumes"] if volume.startswith("./")]
    assert {bind[2] for bind in binds} == {"ro"}
    return {bind[1]: (ROOT / "deploy" / bind[0]).resolve() for bind in binds}


def test_the_gateway_is_this_one_behind_brokers_that_answer_with_its_data_in_a_volume() -> None:
    gateway = COMPOSE["services"]["gateway"]
    assert (ROOT / "deploy" / gateway["build"] / "Dockerfile").resolve() == ROOT / "Dockerfile"
    assert gateway["depends_on"] == {name: {"condition": "service_healthy"} for name in BROKERS}
    (volume,) = re.findall(r"^VOLUME (\S+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert gateway["volumes"] == [f"gateway:{volume}"]
