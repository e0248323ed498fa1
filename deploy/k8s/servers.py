"""Builds etcd, the servers of Kubernetes and kwok with Go, once for each version, as `tools` does the commands.

`go install` refuses modules that replace others, as these do. So each is required by a module made for it, which takes
over the replacements that name a version. Those of Kubernetes name folders of its own repository, its staging modules:
they are released beside it as v0.
"""

import json
import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy.k8s.tools import ToolMissing, folder, require_go

# Where Kubernetes' programs keep the version that they say.
_STAMP = "k8s.io/component-base/version"


@dataclass(frozen=True)
class Server:
    """A program of a module, in one version."""

    name: str
    module: str
    version: str
    package: str

    @property
    def kept(self) -> Path:
        """Returns where it is kept, there or not."""
        return folder() / f"{self.name}-{self.version}" / self.name

    @property
    def staging_version(self) -> str:
        """Returns the version of Kubernetes' staging modules: v0.36.3 beside v1.36.3."""
        return f"v0.{self.version.partition('.')[2]}"


_KUBERNETES = ("k8s.io/kubernetes", "v1.36.3")
ETCD = Server("etcd", "go.etcd.io/etcd/server/v3", "v3.6.16", "go.etcd.io/etcd/server/v3")
APISERVER = Server("kube-apiserver", *_KUBERNETES, "k8s.io/kubernetes/cmd/kube-apiserver")
CONTROLLERS = Server("kube-controller-manager", *_KUBERNETES, "k8s.io/kubernetes/cmd/kube-controller-manager")
SCHEDULER = Server("kube-scheduler", *_KUBERNETES, "k8s.io/kubernetes/cmd/kube-scheduler")
# Stands for nodes and their kubelets: pods are said to run, and nothing does.
KWOK = Server("kwok", "sigs.k8s.io/kwok", "v0.8.0", "sigs.k8s.io/kwok/cmd/kwok")
SERVERS = (ETCD, APISERVER, CONTROLLERS, SCHEDULER, KWOK)


def server(wanted: Server) -> Path:
    """Returns where a program is. Raises ToolMissing."""
    if not wanted.kept.is_file():
        raise ToolMissing(f"{wanted.name} {wanted.version} is not there: `make k8s-cluster` builds it, with Go")
    return wanted.kept


def build(wanted: Server) -> None:
    """Builds a program where it is not there. Raises ToolMissing: there is no Go; CalledProcessError: it failed."""
    if wanted.kept.is_file():
        return
    require_go(wanted.name)
    wanted.kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="oncegate-build-") as made:
        _go(made, "mod", "init", "tool.invalid/built")
        for replaced in _replacements(made, wanted):
            _go(made, "mod", "edit", f"-replace={replaced}")
        _go(made, "get", "-tool", f"{wanted.package}@{wanted.version}")
        minor = wanted.version.split(".")[1]
        stamps = f"-X {_STAMP}.gitVersion={wanted.version} -X {_STAMP}.gitMajor=1 -X {_STAMP}.gitMinor={minor}"
        options = ["-mod=readonly", "-trimpath", "-ldflags", f"-s -w {stamps}"]
        _go(made, "build", *options, "-o", str(wanted.kept), wanted.package)


def _replacements(made: str, wanted: Server) -> list[str]:
    """What the module of a program replaces, as `go mod edit` takes it."""
    file = json.loads(_go(made, "mod", "download", "-json", f"{wanted.module}@{wanted.version}"))["GoMod"]
    own = json.loads(_go(made, "mod", "edit", "-json", file))
    named: list[dict[str, Any]] = [one for one in own.get("Replace") or () if one["New"].get("Version")]
    staging = [one["Path"] for one in own["Require"] if one["Path"][:7] == "k8s.io/" and one["Version"] == "v0.0.0"]
    return [
        *(f"{_module(one['Old'])}={_module(one['New'])}" for one in named),
        *(f"{path}={path}@{wanted.staging_version}" for path in staging),
    ]


def _module(named: dict[str, str]) -> str:
    version = named.get("Version")
    return f"{named['Path']}@{version}" if version else named["Path"]


def _go(where: str, *arguments: str) -> str:
    environment = os.environ | {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local"}
    return subprocess.run(
        ["go", *arguments], cwd=where, env=environment, stdout=subprocess.PIPE, text=True, check=True
    ).stdout
