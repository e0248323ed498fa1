"""The container image runs code of ours while it is built; that code has to be where the Dockerfile says."""

import importlib
import re
from pathlib import Path

DOCKERFILE = Path(__file__).parents[2] / "Dockerfile"


def test_what_the_dockerfile_imports_exists() -> None:
    found = re.findall(r"from (oncegate[\w.]*) import (\w+)", DOCKERFILE.read_text())
    assert found, "the image compiles the kernels while it is built"
    for module, name in found:
        assert callable(getattr(importlib.import_module(module), name))
