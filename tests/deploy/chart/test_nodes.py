"""A release on nodes of kwok, which run nothing: installed, upgraded, drained, rolled back; `make k8s-cluster`."""

import os
from collections.abc import Iterator
from typing import Any

import pytest

from deploy.k8s.render import scenarios
from deploy.k8s.servers import KWOK, server
from tests.support.chart import needed
from tests.support.kube_nodes import NODES, NodesCluster, is_ready

pytestmark = [
    pytest.mark.skipif(
        os.environ.get("NEEDS_K8S") != "true", reason="`make k8s-cluster` runs it, and builds its servers"
    ),
    pytest.mark.timeout(1_200),
]
WAIT = ("--wait", "--timeout", "120s")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodesCluster]:
    needed(lambda: server(KWOK))
    with NodesCluster(tmp_path_factory.mktemp("nodes")) as running:
        yield running


def the_pod(cluster: NodesCluster, namespace: str) -> Any:
    """Returns the only pod of a release, once it is ready."""

    def found() -> Any:
        pods = cluster.pods(namespace)
        assert len(pods) <= 1, "never two at a time"
        return pods and is_ready(pods[0]) and pods[0]

    return cluster.wait_until("its pod is ready", found)


def settings_of(pod: Any) -> str:
    return str(pod["metadata"]["annotations"]["checksum/config"])


@pytest.mark.parametrize("ledger", ["embedded", "redis"])
def test_a_pod_comes_back_with_its_volume_whatever_moves_it(cluster: NodesCluster, ledger: str) -> None:
    namespace = cluster.make_namespace(ledger)
    cluster.give_volume(f"of-{ledger}", "20Gi")
    values = ("--values", str(scenarios()[ledger]))
    assert cluster.release("install", namespace, *values, *WAIT).returncode == 0
    first = the_pod(cluster, namespace)
    (claim,) = cluster.get(f"/api/v1/namespaces/{namespace}/persistentvolumeclaims")["items"]
    assert claim["status"]["phase"] == "Bound"

    assert cluster.release("upgrade", namespace, *values, "--set", "settings.hot_ids=1000", *WAIT).returncode == 0
    second = the_pod(cluster, namespace)
    assert settings_of(second) != settings_of(first), "changed settings restart the pod"

    node = second["spec"]["nodeName"]
    cluster.cordon(node, True)
    assert cluster.evict(second) == 201
    third = the_pod(cluster, namespace)
    cluster.cordon(node, False)
    assert third["spec"]["nodeName"] in {*NODES} - {node}

    rolled = cluster.helm("rollback", "dedup", "1", "--namespace", namespace, *WAIT)
    assert rolled.returncode == 0, rolled.stderr
    fourth = the_pod(cluster, namespace)
    assert settings_of(fourth) == settings_of(first)
    (kept,) = cluster.get(f"/api/v1/namespaces/{namespace}/persistentvolumeclaims")["items"]
    assert (kept["metadata"]["uid"], kept["spec"]["volumeName"]) == (claim["metadata"]["uid"], f"of-{ledger}")
    assert cluster.helm("uninstall", "dedup", "--namespace", namespace, "--wait").returncode == 0


def test_a_drain_of_every_node_ends_with_both_pods_elsewhere(cluster: NodesCluster) -> None:
    """kwok reports standbys as ready, which they never are: `test_cluster` covers the disruption budget."""
    namespace = cluster.make_namespace("kafka")
    values = ("--values", str(scenarios()["kafka"]), "--set", "podDisruptionBudget.enabled=false")
    assert cluster.release("install", namespace, *values, *WAIT).returncode == 0
    for node, other in (NODES, NODES[::-1]):
        cluster.cordon(node, True)
        for pod in cluster.pods(namespace):
            assert pod["spec"]["nodeName"] == other or cluster.evict(pod) == 201

        def elsewhere(other: str = other) -> Any:
            pods = cluster.pods(namespace)
            return len(pods) == 2 and all(is_ready(pod) and pod["spec"]["nodeName"] == other for pod in pods)

        cluster.wait_until(f"both are on {other}", elsewhere)
        cluster.cordon(node, False)
