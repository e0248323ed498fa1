"""A real Kubernetes API server with etcd and controllers, on free ports of 127.0.0.1, without nodes.

Pods are created and admitted, but never run. A test sets the status of each pod, as a kubelet would, or uses the nodes
of `kube_nodes`.
"""

import json
import secrets
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from deploy.k8s.servers import APISERVER, CONTROLLERS, ETCD, Server, server
from deploy.k8s.tools import HELM, tool
from deploy.k8s.values import CHART
from deploy.ports import free_port, free_ports
from tests.support.chart import needed

Object = dict[str, Any]
# Labels of a namespace that admits only restricted pods.
RESTRICTED = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}
# Long enough on a busy machine.
WAIT_S = 180
CONFIG = """\
apiVersion: v1
kind: Config
clusters: [{{name: own, cluster: {{server: "{url}", insecure-skip-tls-verify: true}}}}]
users: [{{name: own, user: {{token: "{token}"}}}}]
contexts: [{{name: own, context: {{cluster: own, user: own}}}}]
current-context: own
"""


class Refused(Exception):
    """A refusal by the server, with its status."""

    def __init__(self, status: int, said: str) -> None:
        super().__init__(f"{status}: {said}")
        self.status = status


class Cluster:
    """Runs the servers for the duration of its context."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: list[subprocess.Popen[bytes]] = []
        self._token = secrets.token_hex(16)
        self.url = f"https://127.0.0.1:{free_port()}"
        self.config = folder / "kubeconfig"
        self._trust = ssl.create_default_context()
        self._trust.check_hostname = False
        self._trust.verify_mode = ssl.CERT_NONE

    def __enter__(self) -> "Cluster":
        self.config.write_text(CONFIG.format(url=self.url, token=self._token))
        self.config.chmod(0o600)
        (self._folder / "tokens.csv").write_text(f"{self._token},admin,admin,system:masters\n")
        key = rsa.generate_private_key(65_537, 2_048)
        form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        (self._folder / "accounts.key").write_bytes(key.private_bytes(*form))
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        # Stop the API server before etcd: it does not stop without etcd.
        for process in reversed(self._running):
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _start(self) -> None:
        etcd, peers = (f"http://127.0.0.1:{port}" for port in free_ports(2))
        where = [f"--data-dir={self._folder}/etcd", "--unsafe-no-fsync", f"--listen-client-urls={etcd}"]
        where += [f"--advertise-client-urls={etcd}", f"--listen-peer-urls={peers}"]
        self._run(ETCD, *where, f"--initial-advertise-peer-urls={peers}", f"--initial-cluster=default={peers}")
        accounts, port = self._folder / "accounts.key", self.url.rpartition(":")[2]
        own = [f"--etcd-servers={etcd}", f"--secure-port={port}", f"--cert-dir={self._folder}/certificates"]
        own += ["--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none"]
        own += ["--service-account-issuer=https://localhost", f"--service-account-key-file={accounts}"]
        own += [f"--service-account-signing-key-file={accounts}", f"--token-auth-file={self._folder}/tokens.csv"]
        # Both address families, so that a Service may ask for either.
        addresses = "--service-cluster-ip-range=10.0.0.0/24,fd00:1::/112"
        self._run(APISERVER, *own, "--authorization-mode=RBAC", addresses)
        self.wait_until("answers", lambda: self.get("/api/v1/namespaces/default"))
        # The controllers wait only ten seconds for this, which is too short on a busy machine.
        self.wait_until("is healthy", lambda: self._answer("GET", "/healthz", None, "text/plain"))
        mine = [f"--kubeconfig={self.config}", "--leader-elect=false", "--bind-address=127.0.0.1"]
        mine += [f"--secure-port={free_port()}", f"--service-account-private-key-file={accounts}"]
        self._run(CONTROLLERS, *mine)

    def _run(self, program: Server, *arguments: str) -> None:
        with (self._folder / f"{program.name}.log").open("wb") as log:
            command = [needed(lambda: server(program)), *arguments]
            self._running.append(subprocess.Popen(command, stdout=log, stderr=log))

    def ask(self, method: str, path: str, body: Object | None = None, form: str = "application/json") -> Object:
        """Sends a request to the API. Raises Refused."""
        answer: Object = json.loads(
            self._answer(method, path, None if body is None else json.dumps(body).encode(), form)
        )
        return answer

    def _answer(self, method: str, path: str, data: bytes | None, form: str) -> bytes:
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": form}
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60, context=self._trust) as answer:
                raw: bytes = answer.read()
                return raw
        except urllib.error.HTTPError as error:
            raise Refused(error.code, error.read().decode()) from None

    def get(self, path: str) -> Object:
        return self.ask("GET", path)

    def wait_until(self, what: str, found: Callable[[], Any]) -> Any:
        """Waits until `found` returns something. Raises AssertionError with the servers' last log lines after
        WAIT_S."""
        end = time.monotonic() + WAIT_S
        while time.monotonic() < end:
            try:
                if there := found():
                    return there
            except (OSError, Refused):
                pass
            time.sleep(0.2)
        logs = [f"{path.name}: {path.read_text()[-800:]}" for path in self._folder.glob("*.log")]
        raise AssertionError("\n".join((f"not so within {WAIT_S} s: {what}", *logs)))

    def make_namespace(self, name: str) -> str:
        """Creates a namespace that admits only restricted pods, and waits until it accepts pods."""
        self.ask("POST", "/api/v1/namespaces", {"metadata": {"name": name, "labels": RESTRICTED}})
        accounts = f"/api/v1/namespaces/{name}/serviceaccounts/default"
        self.wait_until("the namespace has its account", lambda: self.get(accounts))
        return name

    def evict(self, pod: Object) -> int:
        """Requests an eviction, as a drain does. Returns the status of the answer."""
        name, namespace = (pod["metadata"][key] for key in ("name", "namespace"))
        request = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
        try:
            self.ask("POST", f"/api/v1/namespaces/{namespace}/pods/{name}/eviction", request)
        except Refused as error:
            return error.status
        return 201

    def pods(self, namespace: str) -> list[Object]:
        """Returns the gateway's pods that are not being deleted, the oldest first."""
        selected = "labelSelector=app.kubernetes.io/component%3Dgateway"
        found = self.get(f"/api/v1/namespaces/{namespace}/pods?{selected}")["items"]
        there = [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]
        return sorted(there, key=lambda pod: (pod["metadata"]["creationTimestamp"], pod["metadata"]["name"]))

    def set_pod_status(self, pod: Object, is_ready: bool, phase: str = "Running") -> None:
        """Sets the status of a pod, as its kubelet would."""
        ready = {"type": "Ready", "status": str(is_ready), "lastTransitionTime": "2026-01-01T00:00:00Z"}
        status = {"phase": phase, "conditions": [ready]}
        where = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}/status"
        self.ask("PATCH", where, {"status": status}, "application/merge-patch+json")

    def helm(self, *arguments: str | Path) -> "subprocess.CompletedProcess[str]":
        """Runs Helm against this cluster and returns the finished process."""
        command = [tool(HELM), *arguments, "--kubeconfig", self.config]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def release(self, verb: str, namespace: str, *values: str | Path) -> "subprocess.CompletedProcess[str]":
        """Installs or upgrades the chart as release `dedup`."""
        return self.helm(verb, "dedup", CHART, "--namespace", namespace, *values)
