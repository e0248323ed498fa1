"""Renders the chart with Helm for each values file of helm/oncegate/ci, as stored in tests/golden/chart."""

import hashlib
import subprocess
from pathlib import Path

from deploy.k8s.tools import HELM, tool
from deploy.k8s.values import CHART

GOLDEN = Path(__file__).parents[2] / "tests/golden/chart"
# API versions of Prometheus Operator, without which the chart omits its kinds.
APIS = ("monitoring.coreos.com/v1/ServiceMonitor", "monitoring.coreos.com/v1/PrometheusRule")
RELEASE, NAMESPACE, KUBERNETES = "dedup", "oncegate", "1.36.0"


def scenarios() -> dict[str, Path]:
    """Returns the values files in ci/ by name."""
    return {path.name.removesuffix("-values.yaml"): path for path in sorted((CHART / "ci").glob("*-values.yaml"))}


def render(*arguments: str | Path, apis: tuple[str, ...] = APIS) -> "subprocess.CompletedProcess[str]":
    """Runs `helm template`, whatever its status; keeps only warnings and errors of its output."""
    api_flags = [f"--api-versions={api}" for api in apis]
    command = [tool(HELM), "template", RELEASE, CHART, "--namespace", NAMESPACE, "--kube-version", KUBERNETES]
    done = subprocess.run([*command, *api_flags, *arguments], capture_output=True, text=True, check=False)
    # Helm logs each symbolic link that it follows.
    done.stderr = "".join(line for line in done.stderr.splitlines(True) if not line.startswith("level=INFO"))
    return done


def render_all() -> None:
    """Writes the output for each values file, and the digest of the chart's files."""
    GOLDEN.mkdir(parents=True, exist_ok=True)
    for name, path in scenarios().items():
        done = render("--values", path)
        if done.returncode != 0:
            raise SystemExit(f"{path.name}: {done.stderr}")
        (GOLDEN / f"{name}.yaml").write_text(done.stdout)
    (GOLDEN / "made-from.sha256").write_text(made_from() + "\n")


def is_rendered() -> bool:
    """True if the stored output was rendered from the current chart."""
    return (GOLDEN / "made-from.sha256").read_text().strip() == made_from()


def made_from() -> str:
    """Returns a digest of a rendering's inputs: the chart with the targets of its links, and Helm's version."""
    digest = hashlib.sha256(HELM.version.encode())
    # rglob does not follow links to folders, and a copy of the tree may have folders instead.
    for path in sorted({*CHART.rglob("*"), *(CHART / "dashboards").glob("*")}):
        is_part = path.name != "README.md" and path.parent.name != "__pycache__" and path.parent != CHART / "tests"
        if path.is_file() and is_part:
            digest.update(f"\n{path.relative_to(CHART)}\n".encode() + path.read_bytes())
    return digest.hexdigest()
