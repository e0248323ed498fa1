"""Builds etcd, the servers of Kubernetes and kwok with Go, once per version, like the commands in `tools`."""

from dataclasses import dataclass
from pathlib import Path

from deploy.k8s.modules import build_program
from deploy.k8s.tools import ToolMissing, folder, require_go


@dataclass(frozen=True)
class Server:
    """A program of a Go module, in one version."""

    name: str
    module: str
    version: str
    package: str

    @property
    def kept(self) -> Path:
        """Path of the program, whether or not it exists."""
        return folder() / f"{self.name}-{self.version}" / self.name


_KUBERNETES = ("k8s.io/kubernetes", "v1.36.3")
ETCD = Server("etcd", "go.etcd.io/etcd/server/v3", "v3.6.16", "go.etcd.io/etcd/server/v3")
APISERVER = Server("kube-apiserver", *_KUBERNETES, "k8s.io/kubernetes/cmd/kube-apiserver")
CONTROLLERS = Server("kube-controller-manager", *_KUBERNETES, "k8s.io/kubernetes/cmd/kube-controller-manager")
SCHEDULER = Server("kube-scheduler", *_KUBERNETES, "k8s.io/kubernetes/cmd/kube-scheduler")
# Simulates nodes and their kubelets: pods are reported as running, and nothing runs.
KWOK = Server("kwok", "sigs.k8s.io/kwok", "v0.8.0", "sigs.k8s.io/kwok/cmd/kwok")
SERVERS = (ETCD, APISERVER, CONTROLLERS, SCHEDULER, KWOK)


def server(wanted: Server) -> Path:
    """Returns the path of a program. Raises ToolMissing."""
    if not wanted.kept.is_file():
        raise ToolMissing(f"{wanted.name} {wanted.version} is missing: `make k8s-cluster` builds it, with Go")
    return wanted.kept


def build(wanted: Server) -> None:
    """Builds a missing program. Raises ToolMissing without Go, CalledProcessError if the build fails."""
    if not wanted.kept.is_file():
        require_go(wanted.name)
        build_program(wanted.package, wanted.module, wanted.version, wanted.kept)
