"""Planted bugs of the image and the Helm chart that are detected without Helm; `make k8s` tries its templates."""

from tests.mutants.edits import Text
from tests.mutants.mutant import Mutant, one

CHART: tuple[Mutant, ...] = (
    one(
        "two pods own what is one gateway's",
        "tests/golden/chart/embedded.yaml",
        Text("  replicas: 1\n", "  replicas: 2\n"),
        "tests/deploy/chart/test_rendered.py::test_a_ledger_without_standbys_has_one_pod_that_ends_before_the_next_one_begins",
    ),
)
