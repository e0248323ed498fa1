"""The chart's values: each is described, bounded, and known to the gateway; an unknown name is refused."""

import re
import tomllib
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from deploy.k8s.__main__ import stale
from deploy.k8s.render import is_rendered, scenarios
from deploy.k8s.schema import OF_THE_CHART, schema, settings
from deploy.k8s.values import CHART, values
from oncegate.ledgers.kafka import address as kafka
from oncegate.ledgers.kafka.security import PARAMETERS
from oncegate.ledgers.redis import address as redis
from oncegate.settings import ProcessSettings, SemanticSettings
from tests.support.chart import GOLDEN, SCENARIOS
from tests.support.tree import ROOT

VALIDATOR = Draft202012Validator(schema())
DEFAULTS: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
PATHS = [value.path for value in values()]
# Parts of the ledger's URL that the chart builds from values with other names.
BY_THE_CHART = {"master_key", "old_master_key", "bare_key", "runs", "no_witness", "user", "password_file"}


def test_the_schema_and_the_table_of_the_readme_match_the_values() -> None:
    assert list(stale()) == []


def test_what_helm_made_is_of_the_chart_as_it_is() -> None:
    """`make k8s` also renders the chart; here a digest shows, without Helm, that it was rendered."""
    assert is_rendered(), "python -m deploy.k8s --render"
    assert {path.stem for path in GOLDEN.glob("*.yaml")} == set(SCENARIOS)


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(schema())
    assert not list(VALIDATOR.iter_errors(DEFAULTS))


@pytest.mark.parametrize("path", PATHS)
def test_every_value_is_described(path: str) -> None:
    (value,) = (value for value in values() if value.path == path)
    assert value.comment or value.is_group


@pytest.mark.parametrize("name", SCENARIOS)
def test_values_of_the_examples_are_allowed(name: str) -> None:
    assert not list(VALIDATOR.iter_errors(yaml.safe_load(scenarios()[name].read_text())))


@pytest.mark.parametrize("group", ["", *(value.path for value in values() if value.is_group), "settings"])
def test_a_name_that_is_not_there_is_refused_at_every_level(group: str) -> None:
    options: dict[str, Any] = {"replicaCount": 3}
    for name in reversed(group.split(".") if group else []):
        options = {name: options}
    (error,) = VALIDATOR.iter_errors(options)
    assert "'replicaCount' was unexpected" in error.message


@pytest.mark.parametrize(
    ("path", "wrong"),
    [
        ("ledger", "log"),
        ("embedded.accessMode", "ReadWriteMany"),
        ("embedded.size", ""),
        ("kafka.replicas", 0),
        ("kafka.brokers", ["kafka"]),
        ("kafka.prefix", "a.b"),
        ("kafka.options", {"master_key": "/key"}),
        ("redis.prefix", "7"),
        ("redis.options", {"wait_replicas": "many"}),
        ("settings", {"hot_ids": "many"}),
        ("settings", {"port": 9000}),
        ("drain.preStopSeconds", -1),
        ("networkPolicy.from", []),
        ("runAsUser", 0),
        ("image.digest", "latest"),
    ],
)
def test_a_value_that_cannot_be_is_refused(path: str, wrong: Any) -> None:
    given = wrong
    for name in reversed(path.split(".")):
        given = {name: given}
    (error,) = VALIDATOR.iter_errors(given)
    assert ".".join(map(str, error.absolute_path)).startswith(path)


def test_every_setting_of_the_gateway_is_a_value_or_the_charts_own() -> None:
    known = {*SemanticSettings.model_fields, *ProcessSettings.model_fields}
    assert {*settings(), *OF_THE_CHART} == known
    assert not OF_THE_CHART & {*settings()}


def test_every_option_of_a_ledgers_url_is_a_value_or_the_charts_own() -> None:
    options = schema()["properties"]["kafka"]["properties"]["options"]["properties"]
    assert {*options} == {*kafka._READERS} - BY_THE_CHART
    options = schema()["properties"]["redis"]["properties"]["options"]["properties"]
    of_tls = {name for name in PARAMETERS if name.startswith("ssl_")}
    assert {*options} == {*redis._READERS} - BY_THE_CHART - of_tls


def test_defaults_that_the_gateway_has_too_are_the_same() -> None:
    process = ProcessSettings.model_fields
    assert DEFAULTS["drain"]["shutdownMs"] == process["shutdown_ms"].default
    (port,) = re.findall(r'"--port", "(\d+)"', (ROOT / "Dockerfile").read_text())
    assert DEFAULTS["service"]["port"] == int(port)
    (user,) = re.findall(r"^USER (\d+):\d+$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert DEFAULTS["runAsUser"] == int(user)


def test_the_chart_is_of_the_gateways_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


def test_dashboards_and_rules_are_the_one_copy_of_deploy() -> None:
    assert (CHART / "dashboards").is_symlink()
    assert (CHART / "dashboards").resolve() == ROOT / "deploy/grafana/dashboards"
    assert (CHART / "rules.yaml").is_symlink()
    assert (CHART / "rules.yaml").resolve() == ROOT / "deploy/prometheus/rules.yaml"
