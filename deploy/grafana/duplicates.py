"""The dashboard of duplicates: how many come, where from, and which horizon would have let them through."""

from grafana_foundation_sdk.builders.dashboard import Dashboard, Row

from deploy.grafana.panels import Query, bars, board, chosen, lines, number, of_gateways, quantile, rate, share

_ANSWERED = "oncegate_answered_ids_total"
_DUPLICATES = "oncegate_duplicates_total"
_OF_CLIENTS = "oncegate_client_duplicates_total", "oncegate_client_ids_total"
_AGE = "oncegate_duplicate_age_seconds"
_OF_DUPLICATES = 'verdict=~"duplicate|own_duplicate"'
# A horizon, and how a bucket's label writes it.
_HORIZONS = (("an hour", "3600.0"), ("a day", "86400.0"), ("7 days", "604800.0"), ("30 days", "2592000.0"))


def _grown(name: str, more: str = "") -> str:
    return f"sum(increase({chosen(name, more)}[$__range]))"


def _rate_of_all(more: str = "") -> str:
    return f"sum(rate({chosen(_ANSWERED, more)}[$__rate_interval]))"


def _missed(bound: str) -> str:
    """The share of duplicates that are older than a bucket's bound, over the range that is looked at."""
    count = f"sum(increase({chosen(f'{_AGE}_count')}[$__range]))"
    matcher = f'le="{bound}"'
    within = f"sum(increase({chosen(f'{_AGE}_bucket', matcher)}[$__range]))"
    return share(f"({count} - {within})", count)


def duplicates() -> Dashboard:
    """Builds it."""
    begun = board("oncegate-duplicates", "Oncegate: duplicates", "What came again, and was kept out.")
    return _outages(_ages(_clients(_rates(_now(begun)))))


def _now(made: Dashboard) -> Dashboard:
    return (
        made.with_row(Row("Duplicates"))
        .with_panel(
            number(
                "Duplicate share",
                "Of the ids that are answered now, those that were there before.",
                "percentunit",
                share(_rate_of_all(_OF_DUPLICATES), _rate_of_all()),
            )
        )
        .with_panel(
            number("Ids a second", "Answered now, whatever the verdict.", "short", _rate_of_all()),
        )
        .with_panel(
            number(
                "Kept out",
                "Ids, sequences and rows that came again and were not written, in this range.",
                "short",
                _grown(_DUPLICATES),
            )
        )
        .with_panel(
            number(
                "Conflicts",
                "Ids that came again with another payload, in this range: a writer makes different rows of one id.",
                "short",
                _grown(_ANSWERED, 'verdict="conflict"'),
            )
        )
        .with_panel(
            number(
                "Takeovers",
                "Ids granted though an earlier holder may have written them, in this range: copies that there may be.",
                "short",
                _grown("oncegate_takeovers_total"),
            )
        )
        .with_panel(
            number(
                "Other replays",
                "Commits that came again with other rows than the first time, in this range: the first output stays.",
                "short",
                _grown("oncegate_other_replays_total"),
            )
        )
    )


def _rates(made: Dashboard) -> Dashboard:
    per_namespace = share(rate(_ANSWERED, more=_OF_DUPLICATES), rate(_ANSWERED))
    return (
        made.with_panel(
            lines(
                "Duplicate share by namespace",
                "A fall to 0 may mean that writers no longer ask; a rise, that a job runs again and again.",
                "percentunit",
                Query(per_namespace, "{{namespace}}"),
            )
        )
        .with_panel(
            lines(
                "Duplicates a second, by cause",
                "What the ledger and the request know of why they came; see docs/metrics.md for each cause.",
                "short",
                Query(rate(_DUPLICATES, "cause"), "{{cause}}"),
                stacked=True,
            )
        )
        .with_panel(
            lines(
                "Ids a second, by verdict",
                "Ids and sequences that are answered: what each was told.",
                "short",
                Query(rate(_ANSWERED, "verdict"), "{{verdict}}"),
                stacked=True,
            )
        )
        .with_panel(
            bars(
                "Duplicates in this range, by namespace",
                "Ids, sequences and rows that came again: whose writers bring them.",
                "short",
                Query(f"sum by (namespace) (increase({chosen(_DUPLICATES)}[$__range]))", "{{namespace}}"),
            )
        )
    )


def _clients(made: Dashboard) -> Dashboard:
    by = "client, version"
    duplicates, ids = (f"sum by ({by}) (rate({of_gateways(name)}[$__rate_interval]))" for name in _OF_CLIENTS)
    causes = f"sum by (client, cause) (rate({of_gateways(_OF_CLIENTS[0])}[$__rate_interval]))"
    return (
        made.with_row(Row("Clients, of all namespaces"))
        .with_panel(
            lines(
                "Duplicate share by client and version",
                "The program that brings them, as its User-Agent names it: a new version may do what the old did not.",
                "percentunit",
                Query(share(duplicates, ids), "{{client}} {{version}}"),
            )
        )
        .with_panel(
            lines(
                "Duplicates a second, by client and cause",
                "Whose duplicates come for which cause; `unknown` is of clients that do not name their writer.",
                "short",
                Query(causes, "{{client}} {{cause}}"),
                stacked=True,
            )
        )
    )


def _ages(made: Dashboard) -> Dashboard:
    return (
        made.with_row(Row("Age of duplicates, and what a horizon would miss"))
        .with_panel(
            lines(
                "Age of duplicates",
                "Half of the duplicates, and 99 of 100, come within so long after their first.",
                "s",
                Query(quantile(0.5, _AGE), "{{namespace}} half"),
                Query(quantile(0.99, _AGE), "{{namespace}} 99 %"),
            )
        )
        .with_panel(
            lines(
                "A horizon would miss",
                "The share of this range's duplicates that a horizon of so long would have let through.",
                "percentunit",
                *(Query(_missed(bound), f"a horizon of {name}") for name, bound in _HORIZONS),
            )
        )
    )


def _outages(made: Dashboard) -> Dashboard:
    return (
        made.with_row(Row("What policies did while something was down"))
        .with_panel(
            lines(
                "Ids passed unchecked a second",
                "Granted though the ledger was down and nobody looked (on_ledger_down): each may be a copy.",
                "short",
                Query(rate("oncegate_unchecked_ids_total"), "{{namespace}}"),
            )
        )
        .with_panel(
            lines(
                "Spilled rows written a second",
                "Rows that had waited on a client's disk while the gateway was down (on_down), each written once.",
                "short",
                Query(rate("oncegate_spilled_rows_total"), "{{namespace}}"),
            )
        )
    )
