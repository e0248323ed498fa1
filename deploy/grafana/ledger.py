"""The dashboard of the service: how fast it answers, who serves, and how the ledger and Kafka's transactions do."""

from grafana_foundation_sdk.builders.dashboard import Dashboard, Row

from deploy.grafana.panels import Query, board, chosen, latest, lines, mean, number, of_gateways, quantile, rate, share

_CLAIM = "oncegate_claim_seconds"
_APPEND = "oncegate_append_seconds"
_IN_TIME = 'le="0.1"'


def ledger() -> Dashboard:
    """Builds it."""
    made = board(
        "oncegate-ledger", "Oncegate: service and ledger", "How fast claims are answered, and what they wait for."
    )
    return _compaction(_commits(_answers(_now(made))))


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
                "Claims within 100 ms",
                "Of those answered in this range; 0 where there were none.",
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
                "Entries",
                "Of the ledger, a second.",
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
