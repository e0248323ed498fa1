"""Dashboard of the service: latency, namespaces, and the state of the ledger and of Kafka's transactions."""

from grafana_foundation_sdk.builders.dashboard import Dashboard, Row

from deploy.grafana.panels import Query, board, chosen, latest, lines, mean, number, of_gateways, quantile, rate, share

_CLAIM = "oncegate_claim_seconds"
_APPEND = "oncegate_append_seconds"
_IN_TIME = 'le="0.1"'
# Allowed share of late claims: one in 100, as in the alert.
_BUDGET = 0.01


def ledger() -> Dashboard:
    made = board(
        "oncegate-ledger", "Oncegate: service and ledger", "Latency of claims, state of namespaces, and the ledger."
    )
    return _compaction(_commits(_levels(_answers(_now(made)))))


def _states(which: str) -> str:
    matcher = f'state=~"{which}"'
    return f"sum({chosen('oncegate_namespace_state', matcher)})"


def _now(made: Dashboard) -> Dashboard:
    count, within = f"{_CLAIM}_count", f"{_CLAIM}_bucket"
    in_time = f"sum(increase({chosen(within, _IN_TIME)}[$__range]))"
    in_time = share(in_time, f"sum(increase({chosen(count)}[$__range]))")
    return (
        made.with_row(Row("Service"))
        .with_panel(number("Serving", "Served namespaces, including FULL ones.", "short", _states("SERVING|FULL")))
        .with_panel(
            number(
                "Not serving",
                "Namespaces that are recovering or down, in all selected gateways.",
                "short",
                _states("RECOVERING|DOWN"),
            )
        )
        .with_panel(number("Standing by", "Namespaces that a standby follows.", "short", _states("STANDBY")))
        .with_panel(number("Full", "Namespaces that reject new claims: the disk is full.", "short", _states("FULL")))
        .with_panel(
            number(
                "Within 100 ms",
                "Share of the claims in this range; 0 without claims.",
                "percentunit",
                in_time,
            )
        )
        .with_panel(
            number(
                "Ownerships lost",
                "Number of times that a running process had to open a ledger again, in this range.",
                "short",
                f"sum(increase({chosen('oncegate_ownerships_total')}[$__range]))",
            )
        )
    )


def _answers(made: Dashboard) -> Dashboard:
    return (
        made.with_panel(
            lines(
                "Claims: latency",
                "From the request to the durable ledger entry: median and 99th percentile of requests.",
                "s",
                Query(quantile(0.5, _CLAIM), "{{namespace}} half"),
                Query(quantile(0.99, _CLAIM), "{{namespace}} 99 %"),
            )
        )
        .with_panel(
            lines("Claims answered", "Requests a second.", "reqps", Query(rate(f"{_CLAIM}_count"), "{{namespace}}"))
        )
        .with_panel(
            lines(
                "Requests refused",
                "Requests answered OVERLOADED per second because of requests in flight.",
                "reqps",
                Query(
                    f"sum by (instance) (rate({of_gateways('oncegate_admission_refused_requests_total')}"
                    "[$__rate_interval]))",
                    "{{instance}}",
                ),
            )
        )
        .with_panel(
            lines(
                "Recovery",
                "Duration of the current or the last recovery.",
                "s",
                latest("oncegate_recovery_seconds"),
            )
        )
    )


def _grown(name: str, more: str = "") -> str:
    return f"sum(increase({chosen(name, more)}[$__range]))"


def _late(window: str, by: str = "") -> str:
    """Returns a query for the share of claims slower than the objective."""
    count, within = f"{_CLAIM}_count", f"{_CLAIM}_bucket"
    of_all, in_time = (
        f"sum{by}(rate({chosen(name, more)}[{window}]))" for name, more in ((count, ""), (within, _IN_TIME))
    )
    return share(f"({of_all} - {in_time})", of_all)


def _levels(made: Dashboard) -> Dashboard:
    """Adds the service level of the alert OncegateLateClaims, 99 of 100 claims within 100 ms, and its error budget."""
    answered = f"sum(rate({chosen(f'{_CLAIM}_count')}[$__rate_interval]))"
    refused = f"sum(rate({of_gateways('oncegate_admission_refused_requests_total')}[$__rate_interval]))"
    quota = f"sum(rate({chosen('oncegate_quota_refusals_total')}[$__rate_interval]))"
    return (
        made.with_row(Row("Service levels: 99 of 100 claims within 100 ms"))
        .with_panel(
            number(
                "Budget left",
                "Unused share of the allowed late claims, one in a hundred, in this range; 0: used up.",
                "percentunit",
                f"clamp_min(1 - {_late('$__range')} / {_BUDGET}, 0)",
            )
        )
        .with_panel(
            number(
                "Burn rate",
                "Use of the error budget relative to the allowed rate; at 1 it lasts exactly for its window.",
                "short",
                f"{_late('$__rate_interval')} / {_BUDGET}",
                decimals=1,
            )
        )
        .with_panel(
            number(
                "Late",
                "Claims in this range that took longer than 100 ms.",
                "short",
                f"{_grown(f'{_CLAIM}_count')} - {_grown(f'{_CLAIM}_bucket', _IN_TIME)}",
            )
        )
        .with_panel(
            number(
                "99 of 100 within",
                "99th percentile in this range, over all namespaces; 0 without claims.",
                "s",
                f"(histogram_quantile(0.99, sum by (le) (increase({chosen(f'{_CLAIM}_bucket')}[$__range]))) >= 0)"
                f" or 0 * {_grown(f'{_CLAIM}_count')}",
            )
        )
        .with_panel(
            number(
                "Served",
                "Share of namespaces that are served, including FULL ones; standbys do not count.",
                "percentunit",
                share(_states("SERVING|FULL"), _states("SERVING|FULL|RECOVERING|DOWN")),
            )
        )
        .with_panel(
            number(
                "Refused",
                "Share of refusals among claims and refusals: overload, and exhausted quotas.",
                "percentunit",
                share(f"({refused} + {quota})", f"({answered} + {refused} + {quota})"),
            )
        )
        .with_panel(
            lines(
                "Late claims",
                "Share that took longer than 100 ms; above 1 % the error budget does not last.",
                "percentunit",
                Query(_late("$__rate_interval", " by (namespace) "), "{{namespace}}"),
            )
        )
        .with_panel(
            lines(
                "Refusals, by reason",
                "Quota refusals per second; refusals for requests in flight are shown above.",
                "reqps",
                Query(rate("oncegate_quota_refusals_total", "quota"), "{{quota}}"),
            )
        )
    )


def _commits(made: Dashboard) -> Dashboard:
    return (
        made.with_row(Row("Group commit (on Kafka each append is one transaction)"))
        .with_panel(
            lines(
                "Appends: latency",
                "A write and an fsync on disk, or a transaction on Kafka: 99th percentile and mean.",
                "s",
                Query(quantile(0.99, _APPEND), "{{namespace}} 99 %"),
                Query(mean(_APPEND), "{{namespace}} mean"),
            )
        )
        .with_panel(
            lines(
                "Appends, or transactions",
                "Per second. A low rate with a high latency means slow disks or brokers.",
                "ops",
                Query(rate(f"{_APPEND}_count"), "{{namespace}}"),
            )
        )
        .with_panel(
            lines(
                "Waiting",
                "Changes that wait for the next append, and replies that wait for an append to finish.",
                "short",
                Query(f"sum by (namespace) ({chosen('oncegate_group_commit_changes')})", "{{namespace}} changes"),
                Query(f"sum by (namespace) ({chosen('oncegate_group_commit_answers')})", "{{namespace}} answers"),
            )
        )
        .with_panel(
            lines(
                "Appends, by outcome",
                "Per second: durable, refused with nothing written, or lost, which ends the ownership.",
                "ops",
                Query(rate("oncegate_appends_total", "end"), "{{end}}"),
            )
        )
        .with_panel(
            lines(
                "Changes an append",
                "Mean number of changes in an append: 1 for a single writer, more where group commit helps.",
                "short",
                Query(mean("oncegate_append_changes"), "{{namespace}}"),
            )
        )
        .with_panel(
            lines(
                "Entries a second",
                "Ledger entries; one per change.",
                "short",
                Query(
                    f"sum by (namespace) (clamp_min(deriv({chosen('oncegate_ledger_position')}[$__rate_interval]), 0))",
                    "{{namespace}}",
                ),
            )
        )
    )


def _compaction(made: Dashboard) -> Dashboard:
    return (
        made.with_row(Row("Compaction"))
        .with_panel(
            lines(
                "Bytes since the last snapshot",
                "Bytes that a start has to replay.",
                "bytes",
                latest("oncegate_ledger_uncompacted_bytes"),
            )
        )
        .with_panel(
            lines(
                "Age of the last snapshot",
                "Grows while little is written, since no snapshot is due.",
                "s",
                latest("oncegate_snapshot_age_seconds"),
            )
        )
        .with_panel(
            lines(
                "Snapshots",
                "Successful and failed snapshots in this range.",
                "short",
                Query(f"sum(increase({chosen('oncegate_compactions_total')}[$__range]))", "made"),
                Query(f"sum(increase({chosen('oncegate_failed_compactions_total')}[$__range]))", "failed"),
            )
        )
        .with_panel(
            lines(
                "Failing background work",
                "1 while it fails; the log and the namespace's `failing` have the reason.",
                "short",
                Query(f"max by (namespace, work) ({chosen('oncegate_failing')})", "{{namespace}} {{work}}"),
            )
        )
    )
