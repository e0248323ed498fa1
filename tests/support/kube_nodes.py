"""Nodes for a test cluster: kwok simulates the nodes and their pods, the scheduler places the pods."""

from typing import Any

from deploy.k8s.servers import KWOK, SCHEDULER
from deploy.ports import free_port
from tests.support.kube_cluster import Cluster

Object = dict[str, Any]
NODES = ("node-a", "node-b")
# Rules of kwok: each node is ready; each pod on a node becomes ready, and ends when it is deleted.
STAGES = """\
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: node-ready}
spec:
  resourceRef: {apiGroup: v1, kind: Node}
  selector:
    matchExpressions:
      - {key: '.status.conditions.[] | select( .type == "Ready" ) | .status', operator: NotIn, values: ["True"]}
  next:
    statusTemplate: |
      conditions:
        - {type: Ready, status: "True", lastHeartbeatTime: {{ Now | Quote }}, lastTransitionTime: {{ Now | Quote }}}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: pod-ready}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
      - {key: .metadata.deletionTimestamp, operator: DoesNotExist}
      - {key: .status.phase, operator: In, values: [Pending]}
  next:
    statusTemplate: |
      phase: Running
      startTime: {{ Now | Quote }}
      conditions:
        - {type: Ready, status: "True", lastTransitionTime: {{ Now | Quote }}}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: pod-ended}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
      - {key: .metadata.deletionTimestamp, operator: Exists}
  next: {delete: true}
"""
_ROOM = {"cpu": "8", "memory": "32Gi", "pods": "110", "ephemeral-storage": "100Gi"}


class NodesCluster(Cluster):
    """A cluster of two nodes. Every scheduled pod becomes ready; no container runs."""

    def _start(self) -> None:
        super()._start()
        mine = [f"--kubeconfig={self.config}", "--leader-elect=false", "--bind-address=127.0.0.1"]
        self._run(SCHEDULER, *mine, f"--secure-port={free_port()}")
        for name in NODES:
            status = {"capacity": _ROOM, "allocatable": _ROOM}
            labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}
            self.ask("POST", "/api/v1/nodes", {"metadata": {"name": name, "labels": labels}, "status": status})
        stages = self._folder / "stages.yaml"
        stages.write_text(STAGES)
        port = f"--server-address=127.0.0.1:{free_port()}"
        self._run(KWOK, f"--kubeconfig={self.config}", f"--config={stages}", "--manage-all-nodes=true", port)
        for name in NODES:
            self.wait_until(f"{name} is ready", lambda name=name: is_ready(self.get(f"/api/v1/nodes/{name}")))

    def give_volume(self, name: str, size: str) -> None:
        """Creates a volume, as a provisioner or a person would."""
        spec = {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": f"/none/{name}"}}
        self.ask("POST", "/api/v1/persistentvolumes", {"metadata": {"name": name}, "spec": spec})

    def cordon(self, node: str, is_closed: bool) -> None:
        """Closes a node to new pods, as a drain does first, or opens it."""
        change = {"spec": {"unschedulable": is_closed}}
        self.ask("PATCH", f"/api/v1/nodes/{node}", change, "application/merge-patch+json")


def is_ready(found: Object) -> bool:
    """Returns whether a node or pod is ready."""
    conditions = found["status"].get("conditions", ())
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
