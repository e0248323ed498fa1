"""The Helm chart in tests: its committed renderings, and Helm itself if `make k8s` has built it."""

import os
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.k8s.render import GOLDEN, render, scenarios
from deploy.k8s.tools import ToolMissing

Object = dict[str, Any]
SCENARIOS = tuple(scenarios())
KAFKA = tuple(name for name in SCENARIOS if name.startswith("kafka"))


def objects(name: str) -> list[Object]:
    """Returns every object that the chart renders for a values file in ci/."""
    return parsed((GOLDEN / f"{name}.yaml").read_text())


def parsed(text: str) -> list[Object]:
    return [found for found in yaml.safe_load_all(text) if found]


def of_kind(found: list[Object], *kinds: str) -> list[Object]:
    return [one for one in found if one["kind"] in kinds]


def workload(found: list[Object]) -> Object:
    """Returns the one StatefulSet or Deployment."""
    (one,) = of_kind(found, "StatefulSet", "Deployment")
    return one


def pod(found: list[Object]) -> Object:
    template: Object = workload(found)["spec"]["template"]
    return template


def gateway(found: list[Object]) -> Object:
    container: Object = pod(found)["spec"]["containers"][0]
    assert container["name"] == "gateway"
    return container


def environment(found: list[Object]) -> dict[str, str]:
    return {one["name"]: one.get("value", "") for one in gateway(found)["env"]}


def settings(found: list[Object]) -> Object:
    maps = [one for one in of_kind(found, "ConfigMap") if "oncegate.toml" in one["data"]]
    return tomllib.loads(maps[0]["data"]["oncegate.toml"])


def pods(found: list[Object]) -> Iterator[Object]:
    """Yields the spec of every pod: the workload's and that of `helm test`."""
    yield pod(found)["spec"]
    yield from (one["spec"] for one in of_kind(found, "Pod"))


def containers(found: list[Object]) -> Iterator[Object]:
    for spec in pods(found):
        yield from (*spec.get("initContainers", ()), *spec["containers"])


def needed(find: Callable[[], Path]) -> Path:
    """Returns the path of a tool. Skips the test if it is missing; under `make k8s` the test fails."""
    try:
        return find()
    except ToolMissing as error:
        say = pytest.fail if os.environ.get("NEEDS_K8S") == "true" else pytest.skip
        say(str(error))


def rendered(*arguments: str | Path, **more: Any) -> list[Object]:
    """Renders the chart with these values. Raises AssertionError with Helm's message if Helm rejects them."""
    done = render(*arguments, **more)
    assert done.returncode == 0, done.stderr
    return parsed(done.stdout)


def refusal(*arguments: str | Path, **more: Any) -> str:
    """Returns Helm's error message for values that it must reject."""
    done: subprocess.CompletedProcess[str] = render(*arguments, **more)
    assert done.returncode != 0, "it was taken"
    return done.stderr.strip()
