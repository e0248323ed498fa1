"""Stores the schemas of Kubernetes' kinds for kubeconform, from the package kubernetes-validate, by version.

Its files refer to URLs, which kubeconform would fetch; the stored ones refer to the neighbouring files.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from deploy.k8s.tools import ToolMissing, folder

REQUIREMENTS = Path(__file__).parents[2] / "requirements/k8s.txt"
# The oldest that Chart.yaml accepts, one in between, and the newest with schemas.
VERSIONS = ("1.30.0", "1.34.0", "1.37.0")
_DEFINITIONS = "_definitions.json"


def schemas() -> Path:
    """Returns the folder of the schemas. Raises ToolMissing."""
    kept = _kept()
    if not kept.is_dir():
        raise ToolMissing("the schemas of Kubernetes are missing: `make k8s` fetches them")
    return kept


def fetch() -> None:
    """Fetches the package with pip and writes missing schemas. Raises CalledProcessError."""
    kept = _kept()
    if kept.is_dir():
        return
    package, part = kept.with_name("package"), kept.with_name("schemas.part")
    for left in (package, part):
        shutil.rmtree(left, ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--target", str(package)]
    subprocess.run([*pip, "-r", str(REQUIREMENTS)], check=True)
    for version in VERSIONS:
        source = package / f"kubernetes_validate/kubernetes-json-schema/v{version}-local-strict"
        target = part / f"v{version}-standalone-strict"
        target.mkdir(parents=True)
        for path in source.glob("*.json"):
            (target / path.name).write_text(json.dumps(_beside(json.loads(path.read_text()))))
    part.rename(kept)
    shutil.rmtree(package)


def _kept() -> Path:
    version = REQUIREMENTS.read_text().partition("==")[2].split()[0]
    return folder() / f"kubernetes-validate-{version}/schemas"


def _beside(node: Any) -> Any:
    """Returns the schema without URLs."""
    if isinstance(node, list):
        return [_beside(child) for child in node]
    if not isinstance(node, dict):
        return node
    kept = {key: child for key, child in node.items() if not _is_address(key, child)}
    return {key: _local(child) if key == "$ref" else _beside(child) for key, child in kept.items()}


def _is_address(key: str, child: Any) -> bool:
    return key in ("id", "$id") and isinstance(child, str) and child.startswith("http")


def _local(reference: Any) -> Any:
    return reference.replace(f"/api/{_DEFINITIONS}", _DEFINITIONS) if isinstance(reference, str) else reference
