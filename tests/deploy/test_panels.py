"""The dashboards in Grafana's own packages: their types, and each panel drawn from a gateway that met faults.

`make ops` runs the tests, with NEEDS_PANELS=true; they take two minutes and need npm and Chromium. The pictures are
saved in out/ops.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from oncegate_spark import Gateway
from tests.support.dashboards import FOLDER, dashboards
from tests.support.gateway_process import GatewayProcess
from tests.support.ops_scene import FAULTS, NAMESPACES, SETTINGS, Scene
from tests.support.prometheus import Prometheus
from tests.support.tree import ROOT

pytestmark = [
    pytest.mark.skipif(os.environ.get("NEEDS_PANELS") != "true", reason="make ops runs it: two minutes, npm, Chromium"),
    pytest.mark.server,
    pytest.mark.timeout(1_200),
]
OUT = ROOT / "out/ops"
HOME = ROOT / ".venv/panels"
PAUSE_S = 6.0
# Queries over the whole scene that prove each fault occurred: each must exceed 0.
SHOWN = {
    "retries": 'increase(oncegate_answered_ids_total{namespace="flights",verdict="duplicate"}[10m])',
    "other payloads": 'increase(oncegate_answered_ids_total{namespace="mail",verdict="conflict"}[10m])',
    "dead writers": 'increase(oncegate_takeovers_total{namespace="flights"}[10m])',
    "replayed batches": 'increase(oncegate_duplicate_commits_total{namespace="mail"}[10m])',
    "replays that differ": 'increase(oncegate_other_replays_total{namespace="mail"}[10m])',
    "overload": "increase(oncegate_admission_refused_requests_total[10m])",
    "stalls": "increase(oncegate_claim_seconds_count[10m]) - ignoring(le) "
    'increase(oncegate_claim_seconds_bucket{le="0.5"}[10m])',
    "a kill": "resets(process_start_time_seconds[10m]) + changes(process_start_time_seconds[10m])",
}


@dataclass(frozen=True)
class Watched:
    """A Prometheus that has scraped the scene, and the scene's start and end in seconds since 1970."""

    prometheus: Prometheus
    began_s: float
    ended_s: float


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    folder = tmp_path_factory.mktemp("ops")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in SETTINGS.items():
            patch.setenv(name, value)
        with GatewayProcess(folder) as gateway, Prometheus(folder, gateway.port) as prometheus:
            began_s = played(gateway)
            yield Watched(prometheus, began_s, now_s())


def played(gateway: GatewayProcess) -> float:
    """Plays every fault under load; returns the time at which the scene began."""
    for namespace in NAMESPACES:
        with Gateway(gateway.url, namespace) as client:
            client.create_namespace()
    scene, began_s = Scene(gateway), now_s()
    with scene.load():
        time.sleep(PAUSE_S)
        for fault, seconds in FAULTS:
            scene.play(fault, seconds, PAUSE_S)
    return began_s


def now_s() -> float:
    """Returns the wall clock in seconds, which Prometheus uses as timestamp of its samples."""
    return time.time_ns() / 1e9


@pytest.fixture(scope="module")
def tools() -> Path:
    """Builds Grafana's packages and the page that draws with them."""
    for name, package in (("npm", "npm"), ("chromium", "chromium")):
        assert shutil.which(name), f"{name} is not installed: apt-get install {package}"
    subprocess.run([ROOT / "scripts/panels/build.sh"], check=True)
    return HOME


def test_the_dashboards_are_of_grafanas_own_types(tools: Path) -> None:
    written = subprocess.run(
        ["node", tools / "types.mjs", *sorted(FOLDER.glob("*.json"))], capture_output=True, text=True, check=True
    )
    assert checked(tools, written.stdout) == ""
    # Proves that the check can fail: with a field that Grafana does not have.
    assert "schemaVersions" in checked(tools, written.stdout.replace('"schemaVersion"', '"schemaVersions"', 1))


def checked(tools: Path, text: str) -> str:
    """Returns TypeScript's errors for these dashboards."""
    (tools / "dashboards.ts").write_text(text)
    flags = "--noEmit --strict --skipLibCheck --module esnext --moduleResolution bundler --target es2022"
    command = [tools / "node_modules/.bin/tsc", *flags.split(), "dashboards.ts"]
    return subprocess.run(command, cwd=tools, capture_output=True, text=True, check=False).stdout


def test_every_fault_was_met(watched: Watched) -> None:
    met = {name: [float(one["value"][1]) for one in watched.prometheus.query(query)] for name, query in SHOWN.items()}
    assert {name for name, values in met.items() if max(values, default=0) <= 0} == set(), met


@pytest.mark.parametrize("name", list(dashboards()))
def test_grafanas_packages_draw_every_panel_of_it(name: str, watched: Watched, tools: Path) -> None:
    OUT.mkdir(parents=True, exist_ok=True)
    picture, span_s = OUT / name.replace(".json", ".png"), watched.ended_s - watched.began_s
    asked = [watched.prometheus.url, FOLDER / name, picture, watched.ended_s, span_s, "5s", "|".join(NAMESPACES)]
    drawn = subprocess.run(["node", tools / "draw.mjs", *map(str, asked)], capture_output=True, text=True, check=False)
    assert (drawn.returncode, drawn.stdout, drawn.stderr) == (0, "", "")
    assert picture.stat().st_size > 20_000


def test_a_panel_without_data_is_reported(watched: Watched, tools: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.json"
    wrong.write_text((FOLDER / "ledger.json").read_text().replace("oncegate_recovery_seconds", "oncegate_recovered"))
    asked = [watched.prometheus.url, wrong, tmp_path / "wrong.png", watched.ended_s, 60, "5s", "flights"]
    drawn = subprocess.run(["node", tools / "draw.mjs", *map(str, asked)], capture_output=True, text=True, check=False)
    assert (drawn.returncode, drawn.stdout) == (1, "Recovery: no data\n")
