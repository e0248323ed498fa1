"""The chart as Helm renders it, by `make k8s`: as committed, valid for Kubernetes, refused if ids would be lost."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.k8s.render import APIS, GOLDEN, render, scenarios
from deploy.k8s.schemas import VERSIONS, schemas
from deploy.k8s.tools import HELM, KUBE_SCORE, KUBECONFORM, tool
from deploy.k8s.values import CHART, Value, values
from tests.support.chart import SCENARIOS, needed, refusal, rendered

KEYS = ("--set", "keys.existingSecret=k")
KAFKA = (*KEYS, "--set", "ledger=kafka,kafka.brokers={b:9092},masterKey.existingSecret=m")
REDIS = (*KEYS, "--set", "ledger=redis,redis.host=r,masterKey.existingSecret=m")
SASL = "kafka.securityProtocol=SASL_SSL,kafka.saslMechanism=PLAIN"
# Kinds of operators, for which there is no schema.
OF_OPERATORS = ("ServiceMonitor", "PrometheusRule")


@pytest.fixture(scope="module", autouse=True)
def helm() -> Path:
    return needed(lambda: tool(HELM))


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_committed_files_are_those_helm_renders(name: str) -> None:
    done = render("--values", scenarios()[name])
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (GOLDEN / f"{name}.yaml").read_text(), "python -m deploy.k8s --render"


@pytest.mark.parametrize("name", SCENARIOS)
def test_helm_finds_nothing_to_remark(name: str, helm: Path) -> None:
    command = [helm, "lint", "--strict", "--kube-version", "1.36.0", CHART, "--values", scenarios()[name]]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    # Lint does not know the operators' kinds that the chart requires.
    refused_for_lint = "embedded-full" if "install Prometheus Operator first" in done.stdout else None
    assert done.returncode == 0 or name == refused_for_lint, done.stdout


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", SCENARIOS)
def test_every_object_is_valid_for_kubernetes(name: str, version: str) -> None:
    program, known = needed(lambda: tool(KUBECONFORM)), needed(schemas)
    command = [program, "-strict", "-summary", "-output", "json", "-kubernetes-version", version]
    where = ["-skip", ",".join(OF_OPERATORS), "-schema-location", known]
    done = subprocess.run([*command, *where, GOLDEN / f"{name}.yaml"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    found = yaml.safe_load(done.stdout)["summary"]
    skipped = (GOLDEN / f"{name}.yaml").read_text().count("\napiVersion: monitoring.coreos.com/v1")
    assert (found["invalid"], found["errors"], found["skipped"]) == (0, 0, skipped)
    assert found["valid"] >= 6


# The checks of kube-score that the chart fails, each for a reason.
ARGUED = (
    "container-resources",  # no processor limit: it would stall the one loop that answers all requests
    "container-image-pull-policy",  # IfNotPresent: tags are versions, and a digest can be given
    "deployment-has-poddisruptionbudget",  # it would keep the owner on its node, so a person must request it
    "container-security-context-user-group-id",  # the pod's own, for all of its containers
)


@pytest.mark.parametrize("name", [name for name in SCENARIOS if name != "openshift"])
def test_kube_score_finds_nothing_critical(name: str) -> None:
    program = needed(lambda: tool(KUBE_SCORE))
    ignored = [word for check in ARGUED for word in ("--ignore-test", check)]
    command = [program, "score", *ignored, "--output-format", "ci", GOLDEN / f"{name}.yaml"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = [line for line in done.stdout.splitlines() if line.startswith(("[CRITICAL]", "[WARNING]"))]
    assert "[OK]" in done.stdout
    assert not found


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((), "give keys.existingSecret"),
        ((*KEYS, "--set", "insecureWithoutKeys=true"), "contradict each other"),
        ((*KEYS, "--set", "embedded.persistent=false"), "embedded.persistent=false forgets every id"),
        ((*KEYS, "--set", "embedded.whenDeleted=Delete"), "removes the ledger with the release"),
        ((*REDIS, "--set", "redis.witness.size="), "redis.witness.size is empty"),
        ((*KAFKA, "--set", "kafka.options.replication=1,kafka.options.min_insync=1"), "kafka.options.replication=1"),
        ((*KAFKA, "--set", "kafka.options.min_insync=1"), "kafka.options.min_insync=1 loses ids"),
        ((*KEYS, "--set", "kafka.brokers={b:9092}"), "kafka.brokers are given and ledger=embedded"),
        ((*KAFKA, "--set", "redis.host=r"), "redis.host is given and ledger=kafka"),
        ((*KEYS, "--set", "ledger=kafka,bareKey=true"), "needs kafka.brokers"),
        ((*KEYS, "--set", "ledger=redis,bareKey=true"), "needs redis.host"),
        ((*KEYS, "--set", "ledger=redis,redis.host=r"), "ledger=redis needs masterKey.existingSecret"),
        ((*KAFKA, "--set", "bareKey=true"), "masterKey.existingSecret and bareKey=true contradict"),
        ((*KEYS, "--set", "masterKey.existingSecret=m"), "masterKey.existingSecret is of a ledger on Kafka"),
        ((*KEYS, "--set", "oldMasterKey.existingSecret=m"), "oldMasterKey.existingSecret is of a ledger on Kafka"),
        ((*KEYS, "--set", "bareKey=true"), "bareKey is of a ledger on Kafka"),
        ((*KEYS, "--set", "runs.sizeLimit=1Gi"), "runs.sizeLimit is of a ledger on Kafka"),
        (
            (*KEYS, "--set", "ledger=redis,redis.host=r,bareKey=true,oldMasterKey.existingSecret=m"),
            "goes with masterKey.existingSecret",
        ),
        ((*KEYS, "--set", "podDisruptionBudget.enabled=true"), "would hold up each drain"),
        ((*KAFKA, "--set", "podDisruptionBudget.enabled=true,kafka.replicas=1"), "would hold up each drain"),
        ((*KAFKA, "--set", "kafka.securityProtocol=SASL_SSL"), "do not go together"),
        ((*KAFKA, "--set", "kafka.saslMechanism=PLAIN"), "do not go together"),
        ((*KAFKA, "--set", SASL), "SASL needs kafka.saslUsername and password.existingSecret"),
        ((*KAFKA, "--set", "password.existingSecret=p"), "are of SASL"),
        ((*REDIS, "--set", "redis.user=u"), "redis.user needs password.existingSecret"),
        ((*REDIS, "--set", "tls.existingSecret=t"), "the connection has no TLS"),
        ((*REDIS, "--set", "redis.tls=true,tls.existingSecret=t,tls.certificate=c"), "go together"),
        ((*KEYS, "--set", f"image.tag=v1,image.digest=sha256:{'0' * 64}"), "image.digest and image.tag contradict"),
        ((*KEYS, "--set", "grpc.enabled=true,grpc.port=8080"), "the port of HTTP inside of the pod"),
        ((*KEYS, "--set", "grpc.enabled=true,service.port=9090"), "grpc.port and service.port are the same"),
        ((*KEYS, "--set", "drain.terminationGracePeriodSeconds=40"), "has to be more than preStopSeconds"),
        ((*KEYS, "--set", "drain.shutdownMs=50000"), "what was begun would be cut off"),
        ((*KEYS, "--set", "metrics.serviceMonitor.enabled=true"), "a secret with a key of role metrics"),
        ((*KEYS, "--set", "metrics.serviceMonitor.existingSecret=m"), "metrics.serviceMonitor.enabled=false"),
        (("--set", "insecureWithoutKeys=true,tests.existingSecret=t"), "tests.existingSecret holds a key"),
        (
            (
                "--set",
                "insecureWithoutKeys=true,metrics.serviceMonitor.enabled=true,metrics.serviceMonitor.existingSecret=m",
            ),
            "metrics.serviceMonitor.existingSecret holds a key",
        ),
        ((*KEYS, "--set", "replicaCount=3"), "additional properties 'replicaCount' not allowed"),
        ((*KEYS, "--set", "settings.hot_idz=3"), "additional properties 'hot_idz' not allowed"),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_what_loses_ids_or_would_be_left_out_is_refused_in_one_line(given: tuple[str, ...], said: str) -> None:
    message = refusal(*given)
    assert said in message
    assert len([line for line in message.splitlines() if said in line]) == 1


@pytest.mark.parametrize(
    "given",
    [
        (*KEYS, "--set", "embedded.persistent=false"),
        (*KEYS, "--set", "embedded.whenDeleted=Delete"),
        (*REDIS, "--set", "redis.witness.size="),
        (*KAFKA, "--set", "kafka.options.replication=1,kafka.options.min_insync=1"),
    ],
)
def test_losing_ids_requires_explicit_acceptance(given: tuple[str, ...]) -> None:
    assert rendered(*given, "--set", "acceptDataLoss=true")


@pytest.mark.parametrize("values", ["metrics.serviceMonitor.enabled=true", "metrics.rules.enabled=true"])
def test_kinds_that_are_not_there_are_asked_for_and_not_left_out(values: str) -> None:
    given = ("--set", f"insecureWithoutKeys=true,{values}")
    assert "install Prometheus Operator first" in refusal(*given, apis=())
    assert rendered(*given, apis=APIS)


def test_an_older_kubernetes_than_the_chart_needs_is_refused() -> None:
    assert "1.30" in refusal(*KEYS, "--kube-version", "1.29.9")


# A second value for each leaf that the rules below cannot derive, and the values that it requires beside it.
OTHERS: dict[str, Any] = {
    "ledger": "kafka",
    "embedded.accessMode": "ReadWriteOncePod",
    "embedded.whenDeleted": "Delete",
    "kafka.brokers": ["other:9095"],
    "kafka.securityProtocol": "SASL_PLAINTEXT",
    "kafka.saslMechanism": "PLAIN",
    "kafka.options": {"send_ms": 7_000},
    "redis.options": {"reply_ms": 7_000},
    "image.pullPolicy": "Always",
    "image.digest": "sha256:" + "1" * 64,
    "image.pullSecrets": ["pull"],
    "settings": {"ids_per_request": 7},
    "logFormat": "text",
    "hosts": ["other.example.com"],
    "service.type": "NodePort",
    "service.ipFamily": "IPv6",
    "drain.terminationGracePeriodSeconds": 300,
    "drain.shutdownMs": 20_000,
    "networkPolicy.ledgerPorts": [9_999],
    "runAsUser": 1_234,
    "resources": {"limits": {"memory": "7Gi"}},
    "metrics.dashboards.labels": {"other": "1"},
    "metrics.serviceMonitor.interval": "7s",
    "metrics.serviceMonitor.scrapeTimeout": "7s",
    "extraObjects": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other"}}],
}
_STRINGS = re.compile(r"size|sizeLimit")


def another(value: Value) -> Any:
    """Returns a value of the same type that differs from the default."""
    name = value.path.rpartition(".")[2]
    if value.path in OTHERS:
        return OTHERS[value.path]
    if isinstance(value.default, bool):
        return not value.default
    if isinstance(value.default, int):
        return value.default + 7
    if isinstance(value.default, str):
        return "7Gi" if _STRINGS.fullmatch(name) else "other"
    return {"other": "value"} if isinstance(value.default, dict) else [{"name": "other"}]


def given_by(path: str, value: Any) -> dict[str, Any]:
    for name in reversed(path.split(".")):
        value = {name: value}
    return value  # type: ignore[no-any-return]


@pytest.mark.parametrize("value", [value for value in values() if not value.is_group], ids=lambda value: value.path)
def test_every_value_changes_what_is_made_or_is_refused(value: Value, tmp_path: Path) -> None:
    """Runs on top of a file in ci/: a value that is accepted without effect would be an ignored one."""
    changed = tmp_path / "changed.yaml"
    for given in (another(value), value.default):
        changed.write_text(yaml.safe_dump(given_by(value.path, given)))
        for name, path in scenarios().items():
            done = render("--values", path, "--values", changed)
            is_refused = done.returncode != 0 and value.path in done.stderr
            if is_refused or (done.returncode == 0 and done.stdout != (GOLDEN / f"{name}.yaml").read_text()):
                return
    assert value.path in SEEN_BY_A_CLUSTER, "it changes nothing that is made"


# Only an existing cluster shows whether it is needed.
SEEN_BY_A_CLUSTER = {"acceptOtherLedger"}
