"""Dashboard of duplicates: their number, causes and clients, and how many each retention of ids would miss."""

from grafana_foundation_sdk.builders.dashboard import Dashboard, Row

from deploy.grafana.panels import Query, bars, board, chosen, lines, number, of_gateways, quantile, rate, share

_ANSWERED = "oncegate_answered_ids_total"
_DUPLICATES = "oncegate_duplicates_total"
_OF_CLIENTS = "oncegate_client_duplicates_total", "oncegate_client_ids_total"
_AGE = "oncegate_duplicate_age_seconds"
_OF_DUPLICATES = 'verdict=~"duplicate|own_duplicate"'
# A retention of ids, and its label as a bucket bound.
_HORIZONS = (("an hour", "3600.0"), ("a day", "86400.0"), ("7 days", "604800.0"), ("30 days", "2592000.0"))


def _grown(name: str, more: str = "") -> str:
    return f"sum(increase({chosen(name, more)}[$__range]))"


def _rate_of_all(more: str = "") -> str:
    return f"sum(rate({chosen(_ANSWERED, more)}[$__rate_interval]))"


def _missed(bound: str) -> str:
    """Returns a query for the share of duplicates in the range that are older than a bucket's bound."""
    count = f"sum(increase({chosen(f'{_AGE}_count')}[$__range]))"
    matcher = f'le="{bound}"'
    within = f"sum(increase({chosen(f'{_AGE}_bucket', matcher)}[$__range]))"
    return share(f"({count} - {within})", count)


def duplicates() -> Dashboard:
    begun = board("oncegate-duplicates", "Oncegate: duplicates", "Repeated ids, rows and batches.")
    return _outages(_ages(_clients(_rates(_now(begun)))))


def _now(made: Dashboard) -> Dashboard:
    return (
        made.with_row(Row("Duplicates"))
        .with_panel(
            number(
                "Duplicate share",
                "Share of the answered ids that were known before.",
                "percentunit",
                share(_rate_of_all(_OF_DUPLICATES), _rate_of_all()),
            )
        )
        .with_panel(
            number("Ids a second", "Answered ids, all verdicts.", "short", _rate_of_all()),
        )
        .with_panel(
            number(
                "Suppressed",
                "Repeated ids, sequences and rows that were not written, in this range.",
                "short",
                _grown(_DUPLICATES),
            )
        )
        .with_panel(
            number(
                "Conflicts",
                "Ids repeated with another payload, in this range: a writer makes different rows of one id.",
                "short",
                _grown(_ANSWERED, 'verdict="conflict"'),
            )
        )
        .with_panel(
            number(
                "Takeovers",
                "Ids granted although an earlier holder may have written them, in this range: possible duplicates.",
                "short",
                _grown("oncegate_takeovers_total"),
            )
        )
        .with_panel(
            number(
                "Other replays",
                "Repeated commits with other rows than the first, in this range: the first output stays.",
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
                "A fall to 0 may mean that writers no longer claim; a rise, that a job runs repeatedly.",
                "percentunit",
                Query(per_namespace, "{{namespace}}"),
            )
        )
        .with_panel(
            lines(
                "Duplicates a second, by cause",
                "Causes as far as ledger and request reveal them; docs/metrics.md describes each.",
                "short",
                Query(rate(_DUPLICATES, "cause"), "{{cause}}"),
                stacked=True,
            )
        )
        .with_panel(
            lines(
                "Ids a second, by verdict",
                "Answered ids and sequences.",
                "short",
                Query(rate(_ANSWERED, "verdict"), "{{verdict}}"),
                stacked=True,
            )
        )
        .with_panel(
            bars(
                "Duplicates in this range, by namespace",
                "Repeated ids, sequences and rows.",
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
                "Clients by their User-Agent: compare a new version with the previous one.",
                "percentunit",
                Query(share(duplicates, ids), "{{client}} {{version}}"),
            )
        )
        .with_panel(
            lines(
                "Duplicates a second, by client and cause",
                "Causes of each client's duplicates; `unknown` for clients that do not name their writer.",
                "short",
                Query(causes, "{{client}} {{cause}}"),
                stacked=True,
            )
        )
    )


def _ages(made: Dashboard) -> Dashboard:
    return (
        made.with_row(Row("Age of duplicates, and duplicates missed by a retention of ids"))
        .with_panel(
            lines(
                "Age of duplicates",
                "Time from the first occurrence to the duplicate: median and 99th percentile.",
                "s",
                Query(quantile(0.5, _AGE), "{{namespace}} half"),
                Query(quantile(0.99, _AGE), "{{namespace}} 99 %"),
            )
        )
        .with_panel(
            lines(
                "Missed by a retention of ids",
                "Share of this range's duplicates that would be written again with this retention.",
                "percentunit",
                *(Query(_missed(bound), f"retention of {name}") for name, bound in _HORIZONS),
            )
        )
    )


def _outages(made: Dashboard) -> Dashboard:
    return (
        made.with_row(Row("Policies during outages"))
        .with_panel(
            lines(
                "Ids passed unchecked a second",
                "Granted without a look-up while the ledger was down (on_ledger_down): each may be a duplicate.",
                "short",
                Query(rate("oncegate_unchecked_ids_total"), "{{namespace}}"),
            )
        )
        .with_panel(
            lines(
                "Spilled rows written a second",
                "Rows that waited on a client's disk while the gateway was down (on_down), each written once.",
                "short",
                Query(rate("oncegate_spilled_rows_total"), "{{namespace}}"),
            )
        )
    )
