"""Renders the chart by Helm: with the values of each file of helm/oncegate/ci, as tests/golden/chart keeps it."""

import hashlib
import subprocess
from pathlib import Path

from deploy.k8s.tools import HELM, tool
from deploy.k8s.values import CHART

GOLDEN = Path(__file__).parents[2] / "tests/golden/chart"
# Kinds of Prometheus Operator, which the chart asks for before it makes any.
APIS = ("monitoring.coreos.com/v1/ServiceMonitor", "monitoring.coreos.com/v1/PrometheusRule")
RELEASE, NAMESPACE, KUBERNETES = "dedup", "oncegate", "1.36.0"


def scenarios() -> dict[str, Path]:
    """Returns the files of values in ci/ by their names."""
    return {path.name.removesuffix("-values.yaml"): path for path in sorted((CHART / "ci").glob("*-values.yaml"))}


def render(*arguments: str | Path, apis: tuple[str, ...] = APIS) -> "subprocess.CompletedProcess[str]":
    """Runs `helm template` of the chart, whatever its status; of its remarks, only warnings and errors are kept."""
    api_flags = [f"--api-versions={api}" for api in apis]
    command = [tool(HELM), "template", RELEASE, CHART, "--namespace", NAMESPACE, "--kube-version", KUBERNETES]
    done = subprocess.run([*command, *api_flags, *arguments], capture_output=True, text=True, check=False)
    # It tells of each symbolic link that it followed.
    done.stderr = "".join(line for line in done.stderr.splitlines(True) if not line.startswith("level=INFO"))
    return done


def render_all() -> None:
    """Writes what each file of values makes, and from which files of the chart it was made."""
    GOLDEN.mkdir(parents=True, exist_ok=True)
    for name, path in scenarios().items():
        done = render("--values", path)
        if done.returncode != 0:
            raise SystemExit(f"{path.name}: {done.stderr}")
        (GOLDEN / f"{name}.yaml").write_text(done.stdout)
    (GOLDEN / "made-from.sha256").write_text(made_from() + "\n")


def is_rendered() -> bool:
    """Tells whether what is kept was made of the chart as it is."""
    return (GOLDEN / "made-from.sha256").read_text().strip() == made_from()


def made_from() -> str:
    """Returns a digest over what a rendering is made from: the chart with what its links name, and Helm's version."""
    digest = hashlib.sha256(HELM.version.encode())
    # Links to folders are not walked into, and a copy of the tree may hold folders in their place.
    for path in sorted({*CHART.rglob("*"), *(CHART / "dashboards").glob("*")}):
        is_part = path.name != "README.md" and path.parent.name != "__pycache__" and path.parent != CHART / "tests"
        if path.is_file() and is_part:
            digest.update(f"\n{path.relative_to(CHART)}\n".encode() + path.read_bytes())
    return digest.hexdigest()
