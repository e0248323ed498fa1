"""The chart on a real API server with Kubernetes' own controllers, under the policy restricted: `make k8s-cluster`."""

import os
import threading
import zlib
from collections.abc import Iterator
from typing import Any

import pytest

from deploy.k8s.render import scenarios
from deploy.k8s.servers import APISERVER, server
from tests.support.chart import KAFKA, SCENARIOS, needed
from tests.support.kube_cluster import Cluster

OPERATORS = {"ServiceMonitor": "servicemonitors", "PrometheusRule": "prometheusrules"}
pytestmark = [
    pytest.mark.skipif(
        os.environ.get("NEEDS_K8S") != "true", reason="`make k8s-cluster` runs it, and builds its servers"
    ),
    pytest.mark.timeout(1_200),
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    needed(lambda: server(APISERVER))
    with Cluster(tmp_path_factory.mktemp("cluster")) as running:
        for kind, plural in OPERATORS.items():
            running.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", defined(kind, plural))
        important = {"metadata": {"name": "important"}, "value": 1_000}
        running.ask("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", important)
        running.wait_until("it knows the operators' kinds", lambda: running.get("/apis/monitoring.coreos.com/v1"))
        yield running


def defined(kind: str, plural: str) -> dict[str, Any]:
    """Returns the definition of an operator's kind that accepts any fields, in place of the operator's own."""
    anything = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    names = {"kind": kind, "plural": plural, "singular": kind.lower()}
    version = {"name": "v1", "served": True, "storage": True, "schema": anything}
    spec = {"group": "monitoring.coreos.com", "scope": "Namespaced", "names": names, "versions": [version]}
    approved = {"api-approved.kubernetes.io": "unapproved, for tests"}
    return {"metadata": {"name": f"{plural}.monitoring.coreos.com", "annotations": approved}, "spec": spec}


@pytest.fixture
def namespace(cluster: Cluster, request: pytest.FixtureRequest) -> str:
    """Returns the test's own namespace, which admits only restricted pods."""
    return cluster.make_namespace(f"test-{zlib.crc32(request.node.name.encode())}")


def installed(cluster: Cluster, namespace: str, name: str, *more: str) -> list[dict[str, Any]]:
    """Installs the values of a file in ci/; returns the gateway's pods."""
    done = cluster.release("install", namespace, "--values", str(scenarios()[name]), *more)
    assert done.returncode == 0, done.stderr
    wanted = {"kafka": 2, "kafka-secure": 3}.get(name, 1)
    found: list[dict[str, Any]] = cluster.wait_until(
        "pods are let in", lambda: len(pods := cluster.pods(namespace)) == wanted and pods
    )
    return found


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_object_is_taken_and_its_pods_are_let_in(cluster: Cluster, namespace: str, name: str) -> None:
    installed(cluster, namespace, name)
    again = cluster.release("upgrade", namespace, "--values", str(scenarios()[name]))
    assert again.returncode == 0, again.stderr
    kind = "deployments" if name in KAFKA else "statefulsets"
    made = cluster.get(f"/apis/apps/v1/namespaces/{namespace}/{kind}/dedup-oncegate")
    assert made["metadata"]["generation"] == 1, "the same values change nothing"


def test_the_pod_of_helm_test_is_let_in_too(cluster: Cluster, namespace: str) -> None:
    installed(cluster, namespace, "embedded")
    done: list[Any] = []
    command = ("test", "dedup", "--namespace", namespace, "--timeout", "120s")
    trying = threading.Thread(target=lambda: done.append(cluster.helm(*command)))
    trying.start()
    where = f"/api/v1/namespaces/{namespace}/pods/dedup-oncegate-test"
    cluster.set_pod_status(cluster.wait_until("its pod is made", lambda: cluster.get(where)), True, "Succeeded")
    trying.join()
    assert done[0].returncode == 0, done[0].stderr


def test_changed_settings_restart_the_single_pod_and_a_rollback_does_too(cluster: Cluster, namespace: str) -> None:
    (first,) = installed(cluster, namespace, "embedded")
    cluster.set_pod_status(first, True)
    values = ("--values", str(scenarios()["embedded"]))
    assert cluster.release("upgrade", namespace, *values, "--set", "settings.hot_ids=1000").returncode == 0

    def other(than: dict[str, Any]) -> Any:
        pods = cluster.pods(namespace)
        assert len(pods) <= 1, "never two at a time"
        return pods and pods[0]["metadata"]["uid"] != than["metadata"]["uid"] and pods[0]

    second = cluster.wait_until("another pod", lambda: other(first))
    cluster.set_pod_status(second, True)
    rolled = cluster.helm("rollback", "dedup", "1", "--namespace", namespace)
    assert rolled.returncode == 0, rolled.stderr
    third = cluster.wait_until("another pod", lambda: other(second))
    sums = [pod["metadata"]["annotations"]["checksum/config"] for pod in (first, second, third)]
    assert sums[0] == sums[2] != sums[1]


def test_an_upgrade_on_kafka_ends_though_only_one_pod_is_ever_ready(cluster: Cluster, namespace: str) -> None:
    old = installed(cluster, namespace, "kafka")
    cluster.set_pod_status(old[0], True)
    cluster.set_pod_status(old[1], False)
    values = ("--values", str(scenarios()["kafka"]), "--set", "settings.hot_ids=1000")
    done = cluster.release("upgrade", namespace, *values, "--wait=legacy", "--timeout", "120s")
    assert done.returncode == 0, done.stderr
    gone = {pod["metadata"]["uid"] for pod in old}

    def new() -> Any:
        pods = cluster.pods(namespace)
        return len(pods) == 2 and not gone & {pod["metadata"]["uid"] for pod in pods} and pods

    pods = cluster.wait_until("two other pods", new)
    cluster.set_pod_status(pods[0], True)
    cluster.set_pod_status(pods[1], False)
    where = f"/apis/apps/v1/namespaces/{namespace}/deployments/dedup-oncegate"
    cluster.wait_until("one is available", lambda: cluster.get(where)["status"].get("availableReplicas") == 1)
    assert "ProgressDeadlineExceeded" not in str(cluster.get(where)["status"])


def test_a_drain_takes_standbys_while_an_owner_is_ready_and_never_the_owner(cluster: Cluster, namespace: str) -> None:
    owner, standby = installed(cluster, namespace, "kafka")
    cluster.set_pod_status(owner, True)
    cluster.set_pod_status(standby, False)
    where = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets/dedup-oncegate"
    cluster.wait_until("it is counted", lambda: cluster.get(where)["status"].get("currentHealthy") == 1)
    assert cluster.evict(owner) == 429
    assert cluster.evict(standby) == 201
    (follower,) = cluster.wait_until("another standby", lambda: standbys(cluster, namespace, owner))
    cluster.set_pod_status(follower, False)
    cluster.set_pod_status(owner, False)
    cluster.wait_until("it is counted", lambda: cluster.get(where)["status"]["currentHealthy"] == 0)
    assert cluster.evict(follower) == 429, "it may be the one that takes over"


def standbys(cluster: Cluster, namespace: str, owner: dict[str, Any]) -> list[dict[str, Any]]:
    return [pod for pod in cluster.pods(namespace) if pod["metadata"]["uid"] != owner["metadata"]["uid"]]


def test_a_release_keeps_its_ledger_until_another_is_accepted(cluster: Cluster, namespace: str) -> None:
    installed(cluster, namespace, "embedded")
    values = ("--values", str(scenarios()["redis"]))
    done = cluster.release("upgrade", namespace, *values)
    assert "this release's ledger is embedded, and redis/oncegate knows nothing of what was written" in done.stderr
    accepted = (*values, "--set", "acceptOtherLedger=true")
    refused = cluster.release("upgrade", namespace, *accepted)
    assert "from (data 20Gi ReadWriteOnce) to (witness 1Gi ReadWriteOnce)" in refused.stderr
    assert "kubectl delete statefulset dedup-oncegate, which keeps the volumes" in refused.stderr
    cluster.ask("DELETE", f"/apis/apps/v1/namespaces/{namespace}/statefulsets/dedup-oncegate")
    cluster.wait_until("its pod is gone", lambda: not cluster.pods(namespace))
    taken = cluster.release("upgrade", namespace, *accepted)
    assert taken.returncode == 0, taken.stderr
    kept = cluster.get(f"/api/v1/namespaces/{namespace}/persistentvolumeclaims")["items"]
    assert "data-dedup-oncegate-0" in {claim["metadata"]["name"] for claim in kept}


def test_a_volume_of_another_size_is_refused_in_one_line(cluster: Cluster, namespace: str) -> None:
    installed(cluster, namespace, "embedded")
    values = ("--values", str(scenarios()["embedded"]), "--set", "embedded.size=30Gi")
    done = cluster.release("upgrade", namespace, *values)
    assert "cannot change, from (data 20Gi ReadWriteOnce) to (data 30Gi ReadWriteOnce)" in done.stderr


def test_the_volumes_outlive_the_release(cluster: Cluster, namespace: str) -> None:
    installed(cluster, namespace, "embedded-full")
    claims = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
    assert len(cluster.get(claims)["items"]) == 2
    assert cluster.helm("uninstall", "dedup", "--namespace", namespace).returncode == 0
    cluster.wait_until("its pod is gone", lambda: not cluster.pods(namespace))
    kept = cluster.get(claims)["items"]
    assert {claim["metadata"]["name"] for claim in kept} == {"data-dedup-oncegate-0", "witness-dedup-oncegate-0"}
    assert not [claim for claim in kept if claim["metadata"].get("ownerReferences")]
