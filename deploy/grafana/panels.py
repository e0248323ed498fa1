"""Panels of dashboards, with queries that return a finite number even without traffic.

A rate without traffic is 0, a share divides by at least a tiny number, and a quantile, NaN in Prometheus, becomes 0. An
empty panel therefore means that nothing is scraped.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from grafana_foundation_sdk.builders import bargauge, common, stat, timeseries
from grafana_foundation_sdk.builders import dashboard as boards
from grafana_foundation_sdk.builders.prometheus import Dataquery
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.variants import Dataquery as AnyQuery
from grafana_foundation_sdk.models.common import StackingMode
from grafana_foundation_sdk.models.dashboard import (
    DataSourceRef,
    VariableHide,
    VariableRefresh,
    VariableSort,
)

SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
# Matchers of every query: the selected gateways, and the selected namespaces.
OF_JOB = 'job=~"$job"'
OF_NAMESPACE = f'{OF_JOB},namespace=~"$namespace"'
# Smaller than any displayed rate.
TINY = "1e-9"


@dataclass(frozen=True)
class Query:
    """A query of a panel; `legend` names its series and may refer to labels, `{{namespace}}`."""

    expr: str
    legend: str


def chosen(name: str, more: str = "") -> str:
    """Selects a metric's series of the selected namespaces; `more`: further matchers."""
    return f"{name}{{{OF_NAMESPACE}{',' + more if more else ''}}}"


def of_gateways(name: str) -> str:
    """Selects a metric's series of the selected gateways, for metrics without a namespace."""
    return f"{name}{{{OF_JOB}}}"


def rate(name: str, by: str = "namespace", more: str = "") -> str:
    """Returns a query for the rate of a counter per second, summed by a label."""
    return f"sum by ({by}) (rate({chosen(name, more)}[$__rate_interval]))"


def latest(name: str, legend: str = "{{namespace}}") -> Query:
    """Returns a query for the current value of a gauge, one series per namespace whichever gateway serves it."""
    return Query(f"max by (namespace) ({chosen(name)})", legend)


def share(part: str, whole: str) -> str:
    """Returns a query for a share; 0 without a whole."""
    return f"{part} / clamp_min({whole}, {TINY})"


def quantile(at: float, histogram: str) -> str:
    """Returns a query for a histogram's quantile by namespace; 0 without observations."""
    buckets = rate(f"{histogram}_bucket", "le, namespace")
    return f"(histogram_quantile({at}, {buckets}) >= 0) or 0 * {rate(f'{histogram}_count')}"


def mean(histogram: str) -> str:
    """Returns a query for a histogram's mean by namespace; 0 without observations."""
    return share(rate(f"{histogram}_sum"), rate(f"{histogram}_count"))


def _targets(queries: Sequence[Query]) -> list[Builder[AnyQuery]]:
    made: list[Builder[AnyQuery]] = []
    for n, query in enumerate(queries):
        target = Dataquery().datasource(SOURCE).expr(query.expr).legend_format(query.legend).ref_id(chr(ord("A") + n))
        made.append(target)
    return made


def lines(title: str, meaning: str, unit: str, *queries: Query, stacked: bool = False) -> timeseries.Panel:
    """Returns a half-width panel of lines over time; `stacked`: the lines add up."""
    panel = timeseries.Panel().title(title).description(meaning).unit(unit).datasource(SOURCE).span(12).height(8)
    panel = panel.targets(_targets(queries)).min(0).line_width(1).fill_opacity(25 if stacked else 8)
    if unit == "percentunit":  # otherwise an axis of zeros would extend to 10,000 %
        panel = panel.axis_soft_max(0.01)
    if stacked:
        panel = panel.stacking(common.StackingConfig().mode(StackingMode.NORMAL))
    return panel


def number(title: str, meaning: str, unit: str, expr: str, decimals: int | None = None) -> stat.Panel:
    """Returns a panel of one number, six per row; counts have no decimals, although increases are extrapolated."""
    panel = stat.Panel().title(title).description(meaning).unit(unit).datasource(SOURCE).span(4).height(4)
    decimals = 0 if decimals is None and unit == "short" else decimals
    panel = panel if decimals is None else panel.decimals(decimals)
    return panel.targets(_targets([Query(expr, title)]))


def bars(title: str, meaning: str, unit: str, query: Query) -> bargauge.Panel:
    """Returns a panel of bars, one per series, with current values."""
    panel = bargauge.Panel().title(title).description(meaning).unit(unit).datasource(SOURCE).span(12).height(8)
    return panel.targets(_targets([query])).min(0)


def board(uid: str, title: str, meaning: str) -> boards.Dashboard:
    """Returns an empty dashboard with selectors for data source, gateways and namespaces."""
    source = boards.DatasourceVariable("datasource").label("Data source").type("prometheus")
    made = boards.Dashboard(title).uid(uid).description(meaning).tags(["oncegate"]).readonly()
    made = made.refresh("30s").time("now-1h", "now").timezone("browser").tooltip(1)  # type: ignore[arg-type]
    jobs = _choice("job", "Gateways", "label_values(oncegate_started, job)")
    return (
        made.with_variable(source)
        .with_variable(jobs)
        .with_variable(
            _choice("namespace", "Namespace", 'label_values(oncegate_namespace_state{job=~"$job"}, namespace)')
        )
    )


def _choice(name: str, label: str, query: str) -> boards.QueryVariable:
    variable = boards.QueryVariable(name).label(label).datasource(SOURCE).query(query).hide(VariableHide.DONT_HIDE)
    variable = variable.refresh(VariableRefresh.ON_TIME_RANGE_CHANGED).sort(VariableSort.ALPHABETICAL_ASC)
    return variable.multi(True).include_all(True).all_value(".+")
