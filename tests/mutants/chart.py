"""Planted bugs of the image and the Helm chart, as far as they are seen without Helm; `make k8s` tries its templates."""

from tests.mutants.edits import Text, cell, replace, without
from tests.mutants.mutant import Mutant, one

_IMAGE = "tests/deploy/test_image.py"
_VALUES = "tests/deploy/chart/test_values.py"
_SUITES = "tests/deploy/chart/test_suites.py"
_HELM_TEST = "tests/deploy/chart/test_helm_test.py"

CHART: tuple[Mutant, ...] = (
    one(
        "loops are compiled for the processor that builds the image",
        "Dockerfile",
        Text("    NUMBA_CPU_NAME=generic \\\n", ""),
        f"{_IMAGE}::test_another_processor_finds_what_was_compiled",
    ),
    one(
        "the image has another client of Kafka than is tested",
        "requirements/image.txt",
        Text("aiokafka==0.14.0", "aiokafka==0.13.0"),
        f"{_IMAGE}::test_the_image_holds_what_every_ledger_needs_in_the_versions_that_are_tested",
    ),
    one(
        "the image lacks what checks tokens",
        "requirements/image.txt",
        Text("joserfc==1.8.0", ""),
        f"{_IMAGE}::test_the_image_holds_every_extra_and_every_extra_that_the_gateway_asks_for_is_one",
    ),
    one(
        "the chart does not offer the filter that the image has",
        "helm/oncegate/values.schema.json",
        Text('        "cold_filter": {\n', '        "cold_sieve": {\n'),
        f"{_IMAGE}::test_settings_that_ask_for_an_extra_start_or_are_refused_in_one_line",
    ),
    one(
        "a misspelt value is taken",
        "deploy.k8s.schema::_group",
        cell("'additionalProperties'", "True"),
        f"{_VALUES}::test_a_name_that_is_not_there_is_refused_at_every_level",
    ),
    one(
        "a setting that the chart gives may be given again",
        "deploy.k8s.schema::OF_THE_CHART",
        without("'port'"),
        f"{_VALUES}::test_a_value_that_cannot_be_is_refused",
    ),
    one(
        "the chart waits shorter for callers than the gateway does",
        "helm/oncegate/values.yaml",
        Text("  shutdownMs: 30000\n", "  shutdownMs: 3000\n"),
        f"{_VALUES}::test_defaults_that_the_gateway_has_too_are_the_same",
    ),
    one(
        "a chart is changed and nobody renders it",
        "helm/oncegate/templates/statefulset.yaml",
        Text("  replicas: 1\n", "  replicas: 2\n"),
        f"{_VALUES}::test_what_helm_made_is_of_the_chart_as_it_is",
    ),
    one(
        "two pods own what is one gateway's",
        "tests/golden/chart/embedded.yaml",
        Text("  replicas: 1\n", "  replicas: 2\n"),
        "tests/deploy/chart/test_rendered.py::test_a_ledger_without_standbys_has_one_pod_that_ends_before_the_next_one_begins",
    ),
    one(
        "a refusal says something else than its suite knows",
        "helm/oncegate/templates/_guards.tpl",
        Text("tls.certificate and tls.privateKey go together", "tls.certificate goes with tls.privateKey"),
        f"{_SUITES}::test_every_refusal_has_a_test_that_knows_its_message",
    ),
    one(
        "helm test does not look whether the second claim is a duplicate",
        "helm.oncegate.files.helm_test::claimed_twice",
        replace("status != 200 or second['verdicts'][0]['verdict'] != 'DUPLICATE'", "status != 200"),
        f"{_HELM_TEST}::test_a_gateway_that_grants_an_id_twice_fails_it",
    ),
)
