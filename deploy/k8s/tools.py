"""Builds the tools that try the chart, once for each version, by Go's own client; they lie outside of the project.

They are Go modules, each checked against Go's database of checksums while it is fetched. A first build of all takes
minutes of two cores. None is taken from the path: it may be of another version.
"""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from deploy.k8s.modules import build_program


@dataclass(frozen=True)
class Tool:
    """A command of a Go module, in one version; the module is named where it replaces others."""

    name: str
    package: str
    version: str
    replacing_module: str = ""


HELM = Tool("helm", "helm.sh/helm/v4/cmd/helm", "v4.3.1")
KUBECONFORM = Tool("kubeconform", "github.com/yannh/kubeconform/cmd/kubeconform", "v0.8.0")
KUBE_SCORE = Tool("kube-score", "github.com/zegl/kube-score/cmd/kube-score", "v1.20.0")
_UNITTEST = "github.com/helm-unittest/helm-unittest"
HELM_UNITTEST = Tool("helm-unittest", f"{_UNITTEST}/cmd/helm-unittest", "v1.1.2", replacing_module=_UNITTEST)
TOOLS = (HELM, KUBECONFORM, KUBE_SCORE, HELM_UNITTEST)


class ToolMissing(RuntimeError):
    """Says that a tool is not there, and how it is had."""


def folder() -> Path:
    """Returns where tools are kept: K8S_TOOLS, or the user's cache."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("K8S_TOOLS") or Path(cache) / "oncegate-tools")


def kept(wanted: Tool) -> Path:
    """Returns where this version of a tool is kept, there or not."""
    return folder() / f"{wanted.name}-{wanted.version}" / wanted.name


def tool(wanted: Tool) -> Path:
    """Returns where a tool is. Raises ToolMissing."""
    if not kept(wanted).is_file():
        raise ToolMissing(f"{wanted.name} {wanted.version} is not there: `make k8s` builds it, with Go")
    return kept(wanted)


def require_go(name: str) -> None:
    """Raises ToolMissing where there is no Go to build a program of this name."""
    if shutil.which("go") is None:
        raise ToolMissing(f"{name} is built by Go, which is not in the path")


def build(wanted: Tool) -> None:
    """Builds a tool where it is not there. Raises ToolMissing: there is no Go; CalledProcessError: it failed."""
    if kept(wanted).is_file():
        return
    require_go(wanted.name)
    if wanted.replacing_module:
        build_program(wanted.package, wanted.replacing_module, wanted.version, kept(wanted))
    else:
        _install(wanted)


def _install(wanted: Tool) -> None:
    target = kept(wanted).parent
    target.mkdir(parents=True, exist_ok=True)
    environment = {"GOBIN": str(target), "CGO_ENABLED": "0", "GOFLAGS": "-trimpath"}
    command = ["go", "install", "-ldflags", "-s -w", f"{wanted.package}@{wanted.version}"]
    subprocess.run(command, env=os.environ | environment, check=True)
