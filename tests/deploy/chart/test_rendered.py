"""The chart's objects for each file of values in ci/: pods that lose nothing, drain, and have few permissions."""

import re
from pathlib import Path

import pytest
import yaml

from deploy.k8s.render import NAMESPACE
from deploy.kafka.certificates import Authority
from oncegate.ledgers.kafka.address import parse_address as parse_kafka
from oncegate.ledgers.redis.address import parse_address as parse_redis
from oncegate.settings import load
from oncegate.transports.http.parameters import Gate
from tests.support.chart import (
    KAFKA,
    SCENARIOS,
    Object,
    containers,
    environment,
    gateway,
    objects,
    of_kind,
    pod,
    pods,
    settings,
    workload,
)
from tests.support.tree import ROOT

EACH = pytest.mark.parametrize("name", SCENARIOS)
RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}


AUTHORITY = Authority()
KEY, CERTIFICATE = AUTHORITY.signed("oncegate")
FILES = {"ca.pem": AUTHORITY.pem, "certificate.pem": CERTIFICATE, "key.pem": KEY}


def policy_of(found: list[Object]) -> Object:
    """Returns the policy of the gateway's traffic; `helm test` has a separate one."""
    (policy,) = (one for one in of_kind(found, "NetworkPolicy") if "annotations" not in one["metadata"])
    return policy


def selects(selector: dict[str, str], labels: dict[str, str]) -> bool:
    return selector.items() <= labels.items()


@EACH
def test_a_pod_may_do_nothing_that_it_need_not(name: str) -> None:
    found = objects(name)
    for spec in pods(found):
        assert spec["automountServiceAccountToken"] is False
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert spec["securityContext"].get("runAsUser") == (None if name == "openshift" else 65_532)
    assert [one["securityContext"] for one in containers(found)] == [RESTRICTED] * len(list(containers(found)))
    assert not of_kind(found, "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "Secret")


@EACH
def test_every_container_has_bounds_on_memory_and_on_the_nodes_disk(name: str) -> None:
    for one in containers(objects(name)):
        assert {"memory", "ephemeral-storage"} <= one["resources"]["limits"].keys()
        assert {"cpu", "memory", "ephemeral-storage"} <= one["resources"]["requests"].keys()


@EACH
def test_the_three_probes_ask_three_things(name: str) -> None:
    container = gateway(objects(name))
    assert {name: probe["httpGet"]["path"] for name, probe in container.items() if name.endswith("Probe")} == {
        "startupProbe": "/healthz/startup",
        "livenessProbe": "/healthz/live",
        "readinessProbe": "/healthz/ready",
    }
    begins = container["startupProbe"]
    assert begins["periodSeconds"] * begins["failureThreshold"] >= 600, "a long ledger is read in this time"


@EACH
def test_begun_requests_finish_before_the_pod_is_killed(name: str) -> None:
    found = objects(name)
    before_s = gateway(found)["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert pod(found)["spec"]["terminationGracePeriodSeconds"] > before_s + settings(found)["shutdown_ms"] / 1_000


@pytest.mark.parametrize("name", [name for name in SCENARIOS if name not in KAFKA])
def test_a_ledger_without_standbys_has_one_pod_that_ends_before_the_next_one_begins(name: str) -> None:
    one = workload(objects(name))
    assert (one["kind"], one["spec"]["replicas"]) == ("StatefulSet", 1)
    assert one["spec"]["updateStrategy"] == {"type": "RollingUpdate"}
    assert one["spec"]["persistentVolumeClaimRetentionPolicy"] == {"whenDeleted": "Retain", "whenScaled": "Retain"}
    (headless,) = (found for found in of_kind(objects(name), "Service") if found["spec"].get("clusterIP") == "None")
    assert headless["metadata"]["name"] == one["spec"]["serviceName"]
    assert not of_kind(objects(name), "PodDisruptionBudget")


@pytest.mark.parametrize("name", KAFKA)
def test_pods_on_kafka_are_standbys_and_a_rollout_does_not_wait_for_them_to_be_ready(name: str) -> None:
    one = workload(objects(name))
    assert one["kind"] == "Deployment"
    assert one["spec"]["replicas"] >= 2
    assert one["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": "100%", "maxUnavailable": "100%"}
    assert one["spec"]["progressDeadlineSeconds"] == 2**31 - 1
    assert settings(objects(name))["standby"] is True
    (apart,) = pod(objects(name))["spec"]["affinity"]["podAntiAffinity"].values()
    assert apart[0]["podAffinityTerm"]["topologyKey"] == "kubernetes.io/hostname"


def test_a_drain_evicts_standbys_while_an_owner_is_ready_and_never_the_owner() -> None:
    (budget,) = of_kind(objects("kafka"), "PodDisruptionBudget")
    assert (budget["spec"]["minAvailable"], budget["spec"]["unhealthyPodEvictionPolicy"]) == (1, "IfHealthyBudget")


@EACH
def test_the_gateway_takes_its_settings_and_its_url(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loads the settings as a pod would: the files that they name are mounted."""
    found = objects(name)
    (data,) = [one["data"] for one in of_kind(found, "ConfigMap") if "oncegate.toml" in one["data"]]
    root = tmp_path / "root"
    for path in mounted(name):
        (root / path.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
        (root / path.lstrip("/")).write_bytes(FILES.get(Path(path).name, b"61" * 32))
    text = data["oncegate.toml"].replace("=/etc/", f"={root}/etc/").replace("=/runs/", f"={root}/runs/")
    (tmp_path / "oncegate.toml").write_text(text)
    for variable, value in environment(found).items():
        monkeypatch.setenv(variable, value)
    process = load(tmp_path / "oncegate.toml").process
    scheme, _, place = process.ledger.partition(":")
    if scheme == "kafka":
        assert parse_kafka(place).security.protocol == ("SASL_SSL" if name == "kafka-secure" else "PLAINTEXT")
    elif scheme in ("redis", "rediss"):
        assert parse_redis(place, scheme == "rediss").user == "oncegate"
    else:
        assert process.ledger == "log:/data/ledger"
    assert (process.keys is None) == process.insecure_without_keys


def mounted(name: str) -> list[str]:
    """Returns every file of a secret that the gateway's container sees."""
    volumes = {one["name"]: one for one in pod(objects(name))["spec"]["volumes"]}
    return [
        f"{mount['mountPath']}/{item['path']}"
        for mount in gateway(objects(name))["volumeMounts"]
        for item in volumes.get(mount["name"], {}).get("secret", {}).get("items", ())
    ]


@EACH
def test_every_file_that_settings_name_is_mounted_and_every_file_that_is_mounted_is_named(name: str) -> None:
    named = re.findall(r"/etc/oncegate/[\w./-]+", str(settings(objects(name))))
    assert sorted(named) == sorted(mounted(name))
    mounts = {mount["mountPath"] for mount in gateway(objects(name))["volumeMounts"]}
    written = re.findall(r"/(?:data|witness|runs)\b", str(settings(objects(name))))
    assert set(written) == mounts & {"/data", "/witness", "/runs"}


@EACH
def test_a_secret_is_mounted_whole_so_that_a_change_is_seen(name: str) -> None:
    assert not [mount for mount in gateway(objects(name))["volumeMounts"] if "subPath" in mount]


@EACH
def test_no_object_contains_or_creates_a_secret(name: str) -> None:
    assert not of_kind(objects(name), "Secret")
    assert "password=" not in str(settings(objects(name)))


@EACH
def test_callers_and_probes_reach_the_gateway_by_the_names_that_they_use(name: str) -> None:
    found = objects(name)
    (service,) = (one for one in of_kind(found, "Service") if one["spec"].get("clusterIP") is None)
    own = service["metadata"]["name"]
    address = "[fd00::7]" if name == "openshift" else "10.1.2.3"
    hosts = environment(found)["ONCEGATE_HOSTS"].replace("$(POD_IP)", address.strip("[]"))
    gate = Gate(hosts.split(","))
    for host in (f"{address}:8080", own, f"{own}.{NAMESPACE}.svc", f"{own}.{NAMESPACE}.svc.cluster.local:8080"):
        scope = {"headers": [(b"host", host.encode())], "raw_path": b"/", "query_string": b""}
        assert gate.refusal(scope) is None, host


@EACH
def test_selectors_find_the_gateways_pods_and_no_others(name: str) -> None:
    found = objects(name)
    labels = pod(found)["metadata"]["labels"]
    others = [one["metadata"]["labels"] for one in of_kind(found, "Pod")]
    (of_test,) = (one for one in of_kind(found, "NetworkPolicy") if "annotations" in one["metadata"])
    assert [selects(of_test["spec"]["podSelector"]["matchLabels"], other) for other in others] == [True]
    found = [one for one in found if one is not of_test]
    selectors = [one["spec"]["selector"] for one in of_kind(found, "Service")]
    selectors += [one["spec"]["podSelector"]["matchLabels"] for one in of_kind(found, "NetworkPolicy")]
    kinds = ("StatefulSet", "Deployment", "PodDisruptionBudget")
    selectors += [one["spec"]["selector"]["matchLabels"] for one in of_kind(found, *kinds)]
    assert len(selectors) >= 3
    for selector in selectors:
        assert selects(selector, labels)
        assert not any(selects(selector, other) for other in others)
        assert "helm.sh/chart" not in selector, "a selector never changes"


@EACH
def test_ports_by_name_are_ports_of_the_container(name: str) -> None:
    found = objects(name)
    named = {port["name"] for port in gateway(found)["ports"]}
    assert all(len(port) <= 15 for port in named)
    for service in of_kind(found, "Service"):
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= named
    policy = policy_of(found)
    # A node's probes pass every policy, and only they use the health port.
    assert {port["port"] for port in policy["spec"]["ingress"][0]["ports"]} == named - {"health"}


@EACH
def test_traffic_goes_to_names_and_to_the_ledger_and_nowhere_else(name: str) -> None:
    policy = policy_of(objects(name))
    ports = sorted({port["port"] for rule in policy["spec"]["egress"] for port in rule["ports"]})
    of_ledger = {"kafka": [9092], "kafka-secure": [9093, 9094], "redis": [6379]}
    assert ports == [53, *of_ledger.get(name, [])]
    assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
    (caller,) = of_kind(objects(name), "Pod")
    peers = [peer.get("podSelector", {}).get("matchLabels") for peer in policy["spec"]["ingress"][0]["from"]]
    assert any(peer and selects(peer, caller["metadata"]["labels"]) for peer in peers), "helm test reaches it"


def test_dashboards_and_rules_come_as_they_are_tested() -> None:
    found = objects("embedded-full")
    (boards,) = (one["data"] for one in of_kind(found, "ConfigMap") if "oncegate-ledger.json" in one["data"])
    for path in (ROOT / "deploy/grafana/dashboards").glob("*.json"):
        assert yaml.safe_load(boards[f"oncegate-{path.name}"]) == yaml.safe_load(path.read_text())
    assert sum(map(len, boards.values())) < 1 << 20, "a ConfigMap takes a MiB"
    (rules,) = of_kind(found, "PrometheusRule")
    assert rules["spec"] == yaml.safe_load((ROOT / "deploy/prometheus/rules.yaml").read_text())


def test_prometheus_scrapes_each_pod_once_and_keeps_the_gateways_own_label_namespace() -> None:
    found = objects("embedded-full")
    (monitor,) = of_kind(found, "ServiceMonitor")
    wanted = monitor["spec"]["selector"]
    (absent,) = (one["key"] for one in wanted["matchExpressions"] if one["operator"] == "DoesNotExist")
    scraped = [
        one
        for one in of_kind(found, "Service")
        if selects(wanted["matchLabels"], one["metadata"]["labels"]) and absent not in one["metadata"]["labels"]
    ]
    assert len(scraped) == 1
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["honorLabels"] is True
    assert endpoint["port"] in {port["name"] for port in scraped[0]["spec"]["ports"]}
    assert endpoint["authorization"]["credentials"] == {"name": "oncegate-metrics", "key": "metrics.key"}


def test_loops_are_copied_to_where_they_can_be_written() -> None:
    """The image's own folder is read-only in a pod, and numba uses only folders that it may write."""
    found = objects("kafka")
    (copied,) = pod(found)["spec"]["initContainers"]
    (folder,) = re.findall(r"NUMBA_CACHE_DIR=(\S+)", (ROOT / "Dockerfile").read_text())
    assert copied["command"] == ["cp", "-r", "--preserve=timestamps", f"{folder}/.", "/kernels"]
    assert environment(found)["NUMBA_CACHE_DIR"] == "/kernels"
    assert {"name": "kernels", "mountPath": "/kernels"} in gateway(found)["volumeMounts"]


def test_a_change_of_settings_restarts_pods() -> None:
    sums = {pod(objects(name))["metadata"]["annotations"]["checksum/config"] for name in SCENARIOS}
    assert len(sums) == len(SCENARIOS)
