"""The chart's own suites, helm/oncegate/tests, as helm-unittest runs them: one for each template, and every refusal."""

import json
import re
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.k8s.tools import HELM, HELM_UNITTEST, tool
from deploy.k8s.values import CHART
from tests.support.chart import needed

TEMPLATES = CHART / "templates"
SUITES: dict[str, dict[str, Any]] = {
    path.name: yaml.safe_load(path.read_text()) for path in sorted((CHART / "tests").glob("*.yaml"))
}
# The forms in which a template refuses: `fail "…"` and `fail (printf "…" …)`.
REFUSAL = re.compile(r'\bfail (?:\(printf )?("(?:[^"\\]|\\.)*")')


@pytest.fixture
def chart(tmp_path: Path) -> Path:
    """Copies the chart, because helm-unittest creates a folder for snapshots beside the suites."""
    return Path(shutil.copytree(CHART, tmp_path / "oncegate"))


def run(chart: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    program = needed(lambda: tool(HELM_UNITTEST))
    return subprocess.run([program, "--strict", *arguments, chart], capture_output=True, text=True, check=False)


def test_every_suite_is_run_and_green(chart: Path) -> None:
    done = run(chart)
    assert done.returncode == 0, done.stdout
    suites, tests = len(SUITES), sum(len(suite["tests"]) for suite in SUITES.values())
    assert re.search(rf"^Test Suites: +{suites} passed, {suites} total$", done.stdout, re.MULTILINE), done.stdout
    assert re.search(rf"^Tests: +{tests} passed, {tests} total$", done.stdout, re.MULTILINE), done.stdout


@pytest.mark.parametrize(
    ("template", "old", "new", "suite", "said"),
    [
        ("statefulset.yaml", "replicas: 1\n", "replicas: 2\n", "statefulset_test.yaml", "ends before the next one"),
        ("_container.tpl", "preStop:", "postStart:", "pod_test.yaml", "what was begun, in a Deployment"),
        ("_guards.tpl", "(not $v.insecureWithoutKeys)", "false", "guards_test.yaml", "whoever reaches it may use"),
    ],
)
def test_a_template_that_is_broken_turns_its_suite_red(
    template: str, old: str, new: str, suite: str, said: str, chart: Path
) -> None:
    text = (chart / "templates" / template).read_text()
    assert old in text
    (chart / "templates" / template).write_text(text.replace(old, new))
    done = run(chart, "--file", f"tests/{suite}")
    assert done.returncode == 1
    assert re.search(rf"^\s+- .*{said}", done.stdout, re.MULTILINE), done.stdout


def test_every_template_has_a_suite() -> None:
    files = [path for path in TEMPLATES.rglob("*") if path.is_file() and path.suffix != ".tpl"]
    tried = {name for suite in SUITES.values() for name in suite["templates"]}
    assert tried == {str(path.relative_to(TEMPLATES)) for path in files}


def test_every_refusal_has_a_test_that_knows_its_message() -> None:
    guards = (TEMPLATES / "_guards.tpl").read_text()
    refusals = REFUSAL.findall(guards)
    assert len(refusals) == guards.count("{{ fail ")
    patterns = {text: re.sub("%[qsv]", ".+", re.escape(json.loads(text))) for text in refusals}
    asserts = [one for suite in SUITES.values() for test in suite["tests"] for one in test["asserts"]]
    known = [
        one["failedTemplate"]["errorMessage"] for one in asserts if "errorMessage" in one.get("failedTemplate", {})
    ]
    assert not [text for text, said in patterns.items() if not any(re.fullmatch(said, message) for message in known)]


def test_the_package_leaves_out_the_suites_and_keeps_helm_test(tmp_path: Path) -> None:
    program = needed(lambda: tool(HELM))
    subprocess.run([program, "package", CHART, "--destination", tmp_path], capture_output=True, check=True)
    (package,) = tmp_path.glob("*.tgz")
    with tarfile.open(package) as opened:
        names = opened.getnames()
    assert not [name for name in names if name.startswith(("oncegate/tests/", "oncegate/ci/"))]
    assert {"oncegate/templates/tests/claims-twice.yaml", "oncegate/files/helm_test.py"} <= {*names}
