"""Builds the tools that test the chart, once per version, with Go, outside of the project.

They are Go modules, each verified against Go's checksum database. The first build of all takes minutes on two cores.
Tools in PATH are not used, since their versions may differ.
"""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from deploy.k8s.modules import build_program


@dataclass(frozen=True)
class Tool:
    """A command of a Go module, in one version; `replacing_module`: set if the module has `replace` directives."""

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
    """A tool is missing; the message has the command that builds it."""


def folder() -> Path:
    """Returns the folder of the tools: K8S_TOOLS, or the user's cache."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("K8S_TOOLS") or Path(cache) / "oncegate-tools")


def kept(wanted: Tool) -> Path:
    """Returns the path of this version of a tool, whether or not it exists."""
    return folder() / f"{wanted.name}-{wanted.version}" / wanted.name


def tool(wanted: Tool) -> Path:
    """Returns the path of a tool. Raises ToolMissing."""
    if not kept(wanted).is_file():
        raise ToolMissing(f"{wanted.name} {wanted.version} is missing: `make k8s` builds it, with Go")
    return kept(wanted)


def require_go(name: str) -> None:
    """Raises ToolMissing without Go."""
    if shutil.which("go") is None:
        raise ToolMissing(f"{name} is built with Go, which is not in PATH")


def build(wanted: Tool) -> None:
    """Builds a missing tool. Raises ToolMissing without Go, CalledProcessError if the build fails."""
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
