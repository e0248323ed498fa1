"""Makes the parts of a dashboard: panels with queries that answer a finite number also while nothing happens.

A rate of nothing is 0, a share of nothing is divided by a tiny number, and a quantile of nothing, which Prometheus
calls NaN, is 0 too: so an empty panel means that nothing is scraped.
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
# What every query asks for: the chosen gateways, and of these the chosen namespaces.
OF_JOB = 'job=~"$job"'
OF_NAMESPACE = f'{OF_JOB},namespace=~"$namespace"'
# Smaller than any rate that is shown.
TINY = "1e-9"


@dataclass(frozen=True)
class Query:
    """Holds one query of a panel and what its series are called: `legend` may name labels, `{{namespace}}`."""

    expr: str
    legend: str


def chosen(name: str, more: str = "") -> str:
    """Selects a metric's series of the chosen namespaces; `more`: further matchers."""
    return f"{name}{{{OF_NAMESPACE}{',' + more if more else ''}}}"


def of_gateways(name: str) -> str:
    """Selects a metric's series of the chosen gateways, where namespaces do not tell them apart."""
    return f"{name}{{{OF_JOB}}}"


def rate(name: str, by: str = "namespace", more: str = "") -> str:
    """Makes a query of how much a counter grows in a second, added up by a label."""
    return f"sum by ({by}) (rate({chosen(name, more)}[$__rate_interval]))"


def latest(name: str, legend: str = "{{namespace}}") -> Query:
    """Makes a query of a gauge as it is now, a series for each namespace whoever serves it."""
    return Query(f"max by (namespace) ({chosen(name)})", legend)


def share(part: str, whole: str) -> str:
    """Makes a query of a share, 0 where there is nothing to share."""
    return f"{part} / clamp_min({whole}, {TINY})"


def quantile(at: float, histogram: str) -> str:
    """Makes a query of a histogram's quantile by namespace, 0 where nothing was observed."""
    buckets = rate(f"{histogram}_bucket", "le, namespace")
    return f"(histogram_quantile({at}, {buckets}) >= 0) or 0 * {rate(f'{histogram}_count')}"


def mean(histogram: str) -> str:
    """Makes a query of a histogram's mean by namespace, 0 where nothing was observed."""
    return share(rate(f"{histogram}_sum"), rate(f"{histogram}_count"))


def _targets(queries: Sequence[Query]) -> list[Builder[AnyQuery]]:
    made: list[Builder[AnyQuery]] = []
    for n, query in enumerate(queries):
        target = Dataquery().datasource(SOURCE).expr(query.expr).legend_format(query.legend).ref_id(chr(ord("A") + n))
        made.append(target)
    return made


def lines(title: str, meaning: str, unit: str, *queries: Query, stacked: bool = False) -> timeseries.Panel:
    """Makes a panel of lines over time, two of which share a row; `stacked`: what adds up."""
    panel = timeseries.Panel().title(title).description(meaning).unit(unit).datasource(SOURCE).span(12).height(8)
    panel = panel.targets(_targets(queries)).min(0).line_width(1).fill_opacity(25 if stacked else 8)
    if unit == "percentunit":  # else an axis of zeros goes to 10,000 %
        panel = panel.axis_soft_max(0.01)
    if stacked:
        panel = panel.stacking(common.StackingConfig().mode(StackingMode.NORMAL))
    return panel


def number(title: str, meaning: str, unit: str, expr: str, decimals: int | None = None) -> stat.Panel:
    """Makes a panel of one number, six of which share a row; counts have no decimals, though increases are no whole
    numbers."""
    panel = stat.Panel().title(title).description(meaning).unit(unit).datasource(SOURCE).span(4).height(4)
    decimals = 0 if decimals is None and unit == "short" else decimals
    panel = panel if decimals is None else panel.decimals(decimals)
    return panel.targets(_targets([Query(expr, title)]))


def bars(title: str, meaning: str, unit: str, query: Query) -> bargauge.Panel:
    """Makes a panel of bars, one for each series, as they are now."""
    panel = bargauge.Panel().title(title).description(meaning).unit(unit).datasource(SOURCE).span(12).height(8)
    return panel.targets(_targets([query])).min(0)


def board(uid: str, title: str, meaning: str) -> boards.Dashboard:
    """Begins a dashboard, with a choice of data source, gateways and namespaces above it."""
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
