"""The dashboard of the service: how fast it answers, who serves, and how the ledger and Kafka's transactions do."""

from grafana_foundation_sdk.builders.dashboard import Dashboard, Row

from deploy.grafana.panels import Query, board, chosen, latest, lines, mean, number, of_gateways, quantile, rate, share

_CLAIM = "oncegate_claim_seconds"
_APPEND = "oncegate_append_seconds"
_IN_TIME = 'le="0.1"'
# Of claims that may be late: one of 100, as the alert has it.
_BUDGET = 0.01


def ledger() -> Dashboard:
    """Builds it."""
    made = board(
        "oncegate-ledger", "Oncegate: service and ledger", "How fast claims are answered, and what they wait for."
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
        .with_panel(number("Serving", "Namespaces that are served, FULL ones too.", "short", _states("SERVING|FULL")))
        .with_panel(
            number(
                "Not serving",
                "Namespaces that recover or stay down, in all gateways that are chosen.",
                "short",
                _states("RECOVERING|DOWN"),
            )
        )
        .with_panel(number("Standing by", "Namespaces that a standby reads on.", "short", _states("STANDBY")))
        .with_panel(number("Full", "Namespaces that take nothing more: no room on the disk.", "short", _states("FULL")))
        .with_panel(
            number(
                "Within 100 ms",
                "Of the claims answered in this range; 0 where there were none.",
                "percentunit",
                in_time,
            )
        )
        .with_panel(
            number(
                "Ownerships lost",
                "How often a ledger was opened anew by a process that goes on, in this range.",
                "short",
                f"sum(increase({chosen('oncegate_ownerships_total')}[$__range]))",
            )
        )
    )


def _answers(made: Dashboard) -> Dashboard:
    return (
        made.with_panel(
            lines(
                "Claims: how long they wait",
                "From their ids to a durable ledger, 99 of 100 within so long; a request each.",
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
                "Answered OVERLOADED a second, for what is in flight already.",
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
                "How long it takes to serve, or took the last time.",
                "s",
                latest("oncegate_recovery_seconds"),
            )
        )
    )


def _grown(name: str, more: str = "") -> str:
    return f"sum(increase({chosen(name, more)}[$__range]))"


def _late(window: str, by: str = "") -> str:
    """The share of claims that took longer than what is promised."""
    count, within = f"{_CLAIM}_count", f"{_CLAIM}_bucket"
    of_all, in_time = (
        f"sum{by}(rate({chosen(name, more)}[{window}]))" for name, more in ((count, ""), (within, _IN_TIME))
    )
    return share(f"({of_all} - {in_time})", of_all)


def _levels(made: Dashboard) -> Dashboard:
    """99 of 100 claims within 100 ms, as the alert OncegateLateClaims has it, and what is left of that."""
    answered = f"sum(rate({chosen(f'{_CLAIM}_count')}[$__rate_interval]))"
    refused = f"sum(rate({of_gateways('oncegate_admission_refused_requests_total')}[$__rate_interval]))"
    quota = f"sum(rate({chosen('oncegate_quota_refusals_total')}[$__rate_interval]))"
    return (
        made.with_row(Row("Service levels: 99 of 100 claims within 100 ms"))
        .with_panel(
            number(
                "Budget left",
                "Of the one claim in a hundred that may be late in this range; 0: used up.",
                "percentunit",
                f"clamp_min(1 - {_late('$__range')} / {_BUDGET}, 0)",
            )
        )
        .with_panel(
            number(
                "Burn rate",
                "How many times faster than allowed the budget is used now: at 1 it lasts just as long as its window.",
                "short",
                f"{_late('$__rate_interval')} / {_BUDGET}",
                decimals=1,
            )
        )
        .with_panel(
            number(
                "Late",
                "Claims of this range that took longer than 100 ms.",
                "short",
                f"{_grown(f'{_CLAIM}_count')} - {_grown(f'{_CLAIM}_bucket', _IN_TIME)}",
            )
        )
        .with_panel(
            number(
                "99 of 100 within",
                "Of the claims of this range, in all namespaces; 0 where there were none.",
                "s",
                f"(histogram_quantile(0.99, sum by (le) (increase({chosen(f'{_CLAIM}_bucket')}[$__range]))) >= 0)"
                f" or 0 * {_grown(f'{_CLAIM}_count')}",
            )
        )
        .with_panel(
            number(
                "Served",
                "Of the namespaces that are to be served, FULL ones too: standbys do not count.",
                "percentunit",
                share(_states("SERVING|FULL"), _states("SERVING|FULL|RECOVERING|DOWN")),
            )
        )
        .with_panel(
            number(
                "Refused",
                "Of claims and refusals now, the share of the latter: overload, and quotas that are used up.",
                "percentunit",
                share(f"({refused} + {quota})", f"({answered} + {refused} + {quota})"),
            )
        )
        .with_panel(
            lines(
                "Late claims",
                "The share that took longer than 100 ms; above one of 100 the budget is used faster than it lasts.",
                "percentunit",
                Query(_late("$__rate_interval", " by (namespace) "), "{{namespace}}"),
            )
        )
        .with_panel(
            lines(
                "Refusals, by reason",
                "A second: quotas of namespaces; what is in flight stands above.",
                "reqps",
                Query(rate("oncegate_quota_refusals_total", "quota"), "{{quota}}"),
            )
        )
    )


def _commits(made: Dashboard) -> Dashboard:
    return (
        made.with_row(Row("Group commit; on Kafka each append is one transaction"))
        .with_panel(
            lines(
                "Appends: how long they take",
                "A write and a sync on a disk, a transaction on Kafka: 99 of 100 within so long, and the mean.",
                "s",
                Query(quantile(0.99, _APPEND), "{{namespace}} 99 %"),
                Query(mean(_APPEND), "{{namespace}} mean"),
            )
        )
        .with_panel(
            lines(
                "Appends, or transactions",
                "A second. Few that are slow: disk or brokers are behind.",
                "ops",
                Query(rate(f"{_APPEND}_count"), "{{namespace}}"),
            )
        )
        .with_panel(
            lines(
                "What waits",
                "Changes that wait for the next append, and answers that wait for an append to end.",
                "short",
                Query(f"sum by (namespace) ({chosen('oncegate_group_commit_changes')})", "{{namespace}} changes"),
                Query(f"sum by (namespace) ({chosen('oncegate_group_commit_answers')})", "{{namespace}} answers"),
            )
        )
        .with_panel(
            lines(
                "Appends, by how they end",
                "A second: durable, refused with nothing written, or lost, which ends the ownership.",
                "ops",
                Query(rate("oncegate_appends_total", "end"), "{{end}}"),
            )
        )
        .with_panel(
            lines(
                "Changes an append",
                "That one append took together, the mean: one is a lone writer, many a group commit that pays.",
                "short",
                Query(mean("oncegate_append_changes"), "{{namespace}}"),
            )
        )
        .with_panel(
            lines(
                "Entries a second",
                "Of the ledger: one for each change.",
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
                "What a start has to replay.",
                "bytes",
                latest("oncegate_ledger_uncompacted_bytes"),
            )
        )
        .with_panel(
            lines(
                "Age of the last snapshot",
                "It grows while little is written, for then none is due.",
                "s",
                latest("oncegate_snapshot_age_seconds"),
            )
        )
        .with_panel(
            lines(
                "Snapshots",
                "Made and failed in this range.",
                "short",
                Query(f"sum(increase({chosen('oncegate_compactions_total')}[$__range]))", "made"),
                Query(f"sum(increase({chosen('oncegate_failed_compactions_total')}[$__range]))", "failed"),
            )
        )
        .with_panel(
            lines(
                "Work that fails",
                "1 where it fails for now; the log and `failing` of the namespace say why.",
                "short",
                Query(f"max by (namespace, work) ({chosen('oncegate_failing')})", "{{namespace}} {{work}}"),
            )
        )
    )
