"""Builds programs of Go modules with `replace` directives, which `go install` rejects.

A temporary module requires the program, and copies those replacements that name a version. Replacements in Kubernetes
name folders of its own repository, the staging modules, which are released separately as v0.
"""

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

# Variables with the version that Kubernetes' programs report.
_STAMP = "k8s.io/component-base/version"


def build_program(package: str, module: str, version: str, target: Path) -> None:
    """Builds a package of a module into a file. Raises CalledProcessError if fetching or building fails."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="oncegate-build-") as made:
        _go(made, "mod", "init", "tool.invalid/built")
        for replaced in _replacements(made, module, version):
            _go(made, "mod", "edit", f"-replace={replaced}")
        _go(made, "get", "-tool", f"{package}@{version}")
        minor = version.split(".")[1]
        stamps = f"-X {_STAMP}.gitVersion={version} -X {_STAMP}.gitMajor=1 -X {_STAMP}.gitMinor={minor}"
        options = ["-mod=readonly", "-trimpath", "-ldflags", f"-s -w {stamps}"]
        _go(made, "build", *options, "-o", str(target), package)


def _staging_version(version: str) -> str:
    """Returns the version of Kubernetes' staging modules: v0.36.3 for v1.36.3."""
    return f"v0.{version.partition('.')[2]}"


def _replacements(made: str, module: str, version: str) -> list[str]:
    """Returns a module's replacements in the format of `go mod edit`."""
    file = json.loads(_go(made, "mod", "download", "-json", f"{module}@{version}"))["GoMod"]
    own = json.loads(_go(made, "mod", "edit", "-json", file))
    named: list[dict[str, Any]] = [
        replacement for replacement in own.get("Replace") or () if replacement["New"].get("Version")
    ]
    staging = [
        replacement["Path"]
        for replacement in own["Require"]
        if replacement["Path"][:7] == "k8s.io/" and replacement["Version"] == "v0.0.0"
    ]
    return [
        *(f"{_module(replacement['Old'])}={_module(replacement['New'])}" for replacement in named),
        *(f"{path}={path}@{_staging_version(version)}" for path in staging),
    ]


def _module(named: dict[str, str]) -> str:
    version = named.get("Version")
    return f"{named['Path']}@{version}" if version else named["Path"]


def _go(where: str, *arguments: str) -> str:
    environment = os.environ | {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local"}
    return subprocess.run(
        ["go", *arguments], cwd=where, env=environment, stdout=subprocess.PIPE, text=True, check=True
    ).stdout
