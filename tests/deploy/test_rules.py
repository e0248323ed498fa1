"""The rules of Prometheus: promtool accepts them, and each alert fires for its case and is silent for the next one."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.dashboards import alerts, rules, unknown_in
from tests.support.prometheus import RULES, promtool
from tests.support.tree import ROOT

RUNBOOKS = ROOT / "deploy/runbooks"
MAIL = {"namespace": "mail"}
# Longer than the longest `for`, and no longer: promtool evaluates every rule for each minute of each case.
EVALUATED_AT = "90m"
# Counters that stay constant and counters that grow each minute, for longer than that.
STANDS, GROWS = "5x120", "0+60x120"


@dataclass(frozen=True)
class Case:
    """Series with which an alert fires with these labels, and series with which it stays silent."""

    fires: dict[str, str]
    silent: dict[str, str]
    labels: dict[str, str]


def _answered(of_duplicates: str, of_granted: str = "0+60x120") -> dict[str, str]:
    return {
        'oncegate_answered_ids_total{namespace="mail",verdict="duplicate"}': of_duplicates,
        'oncegate_answered_ids_total{namespace="mail",verdict="granted"}': of_granted,
    }


def _claims(fast: str, all_of_them: str) -> dict[str, str]:
    return {
        'oncegate_claim_seconds_bucket{namespace="mail",le="0.1"}': fast,
        'oncegate_claim_seconds_bucket{namespace="mail",le="1.0"}': all_of_them,
        'oncegate_claim_seconds_bucket{namespace="mail",le="+Inf"}': all_of_them,
        'oncegate_claim_seconds_count{namespace="mail"}': all_of_them,
    }


def _growing(horizon: str, drivers: str, ids: str = "0+60x120") -> dict[str, str]:
    gauges = {"ids": ids, "horizon_seconds": horizon, "drivers": drivers}
    return {f'oncegate_{name}{{namespace="mail"}}': values for name, values in gauges.items()}


def _filters(ratio: str) -> dict[str, str]:
    limit = {"oncegate_cold_false_positive_limit_ratio": "0.001x120"}
    return {'oncegate_cold_false_positive_ratio{namespace="mail"}': ratio, **limit}


def _of_mail(name: str, fires: str, silent: str, **more: str) -> Case:
    matchers = "".join(f',{label}="{value}"' for label, value in more.items())
    series = f'{name}{{namespace="mail"{matchers}}}'
    return Case({series: fires}, {series: silent}, MAIL)


def _state(mine: str, other: str, state: str = "SERVING") -> dict[str, str]:
    """Returns the series of two gateways, an owner and a standby, of which at most one is in a state."""
    series = 'oncegate_namespace_state{{namespace="mail",instance="{}",state="{}"}}'
    return {series.format(n, state): values for n, values in enumerate((mine, other))}


CASES = {
    "OncegateAbsent": Case({}, {"oncegate_started": "1x120"}, {}),
    "OncegateNotServing": Case(_state("0x120", "0x120"), _state("0x120", "1x120"), MAIL),
    "OncegateFull": Case(_state("1x120", "0x120", "FULL"), _state("0x120", "0x120", "FULL"), MAIL),
    "OncegateWorkFails": Case(
        {'oncegate_failing{namespace="mail",work="compaction"}': "1x120"},
        {'oncegate_failing{namespace="mail",work="room"}': "1x120"},
        MAIL | {"work": "compaction"},
    ),
    "OncegateOwnershipLost": _of_mail("oncegate_ownerships_total", "1x80 2x60", "1x120"),
    "OncegateOtherReplays": _of_mail("oncegate_other_replays_total", "0x80 1x60", "1x120"),
    "OncegateLaneDoubles": _of_mail("oncegate_lane_double_records_total", "0x80 1x60", "1x120"),
    "OncegateConflicts": _of_mail("oncegate_answered_ids_total", GROWS, STANDS, verdict="conflict"),
    "OncegateTakeovers": _of_mail("oncegate_takeovers_total", GROWS, STANDS),
    "OncegateUnchecked": _of_mail("oncegate_unchecked_ids_total", GROWS, STANDS),
    "OncegateDuplicateShareHigh": Case(_answered("0+30x120"), _answered("0+13x120"), MAIL),
    "OncegateClaimsSlow": Case(_claims("0x120", GROWS), _claims(GROWS, GROWS), MAIL),
    "OncegateLateClaims": Case(_claims("0+58x120", GROWS), _claims(GROWS, GROWS), MAIL),
    "OncegateOverloaded": Case(
        {'oncegate_admission_refused_requests_total{job="oncegate"}': GROWS},
        {'oncegate_admission_refused_requests_total{job="oncegate"}': STANDS},
        {"job": "oncegate"},
    ),
    "OncegateUnackedBatchOld": _of_mail("oncegate_unacked_batch_age_seconds", "90000x120", "3600x120"),
    "OncegateGrowsForEver": Case(_growing("0x120", "0x120"), _growing("0x120", "1x120"), MAIL),
    "OncegateFiltersFull": Case(_filters("0.003x120"), _filters("0.001x120"), MAIL),
}
# Further series, each of which alone keeps an alert silent.
ALSO_SILENT = [
    ("OncegateGrowsForEver", _growing("604800x120", "0x120")),
    ("OncegateGrowsForEver", _growing("0x120", "0x120", "7x120")),
    ("OncegateDuplicateShareHigh", _answered("7x120", "7x120")),
    ("OncegateClaimsSlow", _claims("7x120", "7x120")),
]


def test_promtool_accepts_the_rules() -> None:
    done = promtool("check", "rules", "--lint=all", "--lint-fatal", str(RULES))
    assert done.returncode == 0, done.stdout + done.stderr
    done = promtool("check", "config", str(RULES.with_name("prometheus.yaml")))
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_fires_where_it_should(tmp_path: Path) -> None:
    assert set(CASES) == set(alerts())
    done = promtool_says(tmp_path, [(name, case.fires, [expected(name, case)]) for name, case in CASES.items()])
    assert done == ""


def test_no_alert_fires_beside_it(tmp_path: Path) -> None:
    silent = [(name, case.silent) for name, case in CASES.items()] + ALSO_SILENT
    assert promtool_says(tmp_path, [(name, series, []) for name, series in silent]) == ""


def test_an_alert_that_does_not_fire_is_seen(tmp_path: Path) -> None:
    name = "OncegateTakeovers"
    assert name in promtool_says(tmp_path, [(name, CASES[name].silent, [expected(name, CASES[name])])])


def promtool_says(folder: Path, cases: list[tuple[str, dict[str, str], list[dict[str, Any]]]]) -> str:
    """Returns promtool's errors about the alerts over these series; empty if all are as expected."""
    tests = [
        {
            "interval": "1m",
            "input_series": [{"series": series, "values": values} for series, values in given.items()],
            "alert_rule_test": [{"eval_time": EVALUATED_AT, "alertname": name, "exp_alerts": alerts}],
        }
        for name, given, alerts in cases
    ]
    path = folder / "rules_test.yaml"
    path.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}))
    done = promtool("test", "rules", str(path))
    return "" if done.returncode == 0 else done.stdout + done.stderr


def expected(name: str, case: Case) -> dict[str, Any]:
    """Returns the expected alert: its labels and annotations."""
    rule = alerts()[name]
    annotations = dict(rule["annotations"])
    for label, value in case.labels.items():
        annotations["summary"] = annotations["summary"].replace("{{ $labels." + label + " }}", value)
    return {"exp_labels": rule["labels"] | case.labels, "exp_annotations": annotations}


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule.get("alert") or rule["record"])
def test_a_rule_names_only_what_the_gateway_has(rule: dict[str, Any]) -> None:
    assert unknown_in(rule["expr"]) == []


@pytest.mark.parametrize("name", alerts())
def test_an_alert_has_a_runbook_with_where_to_look_and_what_to_do(name: str) -> None:
    rule = alerts()[name]
    assert rule["annotations"]["runbook"] == f"deploy/runbooks/{name}.md"
    text = (ROOT / rule["annotations"]["runbook"]).read_text()
    assert text.startswith(f"# {name}: ")
    assert [line for line in text.splitlines() if line.startswith("## ")] == ["## Look", "## Do"]
    assert rule["labels"]["severity"] in ("critical", "warning")


def test_there_is_no_runbook_without_an_alert() -> None:
    assert {path.stem for path in RUNBOOKS.glob("*.md")} == set(alerts())
