"""The dashboard of capacity: what memory, disk and requests in flight are used for, and what lets ids go."""

from grafana_foundation_sdk.builders.dashboard import Dashboard, Row

from deploy.grafana.panels import Query, board, chosen, latest, lines, of_gateways, share


def capacity() -> Dashboard:
    """Builds it."""
    made = board("oncegate-capacity", "Oncegate: capacity", "What is known, what it takes, and what lets it go.")
    return _process(_forgetting(_ids(made)))


def _ids(made: Dashboard) -> Dashboard:
    return (
        made.with_row(Row("Ids"))
        .with_panel(lines("Ids", "Known now.", "short", latest("oncegate_ids")))
        .with_panel(
            lines(
                "Ids added a day",
                "If a day went on as the last hour; `oncegate size` says what they take.",
                "short",
                Query(f"max by (namespace) (deriv({chosen('oncegate_ids')}[1h])) * 86400", "{{namespace}}"),
            )
        )
        .with_panel(
            lines(
                "Memory of the index",
                "Slots and rows of ids, and of cold ones their filters and fences.",
                "bytes",
                latest("oncegate_index_bytes", "{{namespace}} hot"),
                latest("oncegate_cold_bytes", "{{namespace}} cold"),
            )
        )
        .with_panel(
            lines(
                "Cold ids",
                "That left memory, and the runs that they lie in.",
                "short",
                latest("oncegate_cold_ids", "{{namespace}} ids"),
                latest("oncegate_cold_runs", "{{namespace}} runs"),
            )
        )
        .with_panel(
            lines(
                "Filters' false positives",
                "Of ids in no run, those that filters let pass; and what the setting allows.",
                "percentunit",
                latest("oncegate_cold_false_positive_ratio"),
                Query(f"max({of_gateways('oncegate_cold_false_positive_limit_ratio')})", "allowed"),
            )
        )
        .with_panel(lines("Open claims", "Growth means writers that die.", "short", latest("oncegate_open_claims")))
    )


def _forgetting(made: Dashboard) -> Dashboard:
    return (
        made.with_row(Row("What lets ids go: horizon and acks"))
        .with_panel(lines("Horizon", "0: ids are known for ever.", "s", latest("oncegate_horizon_seconds")))
        .with_panel(
            lines(
                "Oldest batch that is not acked",
                "Growth means a driver that has stopped, or does not ack.",
                "s",
                latest("oncegate_unacked_batch_age_seconds"),
            )
        )
        .with_panel(
            lines(
                "Sequences that are not acked",
                "Of all producers.",
                "short",
                latest("oncegate_unacked_sequences"),
            )
        )
        .with_panel(lines("Staged", "Bytes that wait for their commit.", "bytes", latest("oncegate_stage_bytes")))
    )


def _process(made: Dashboard) -> Dashboard:
    requests, limit = of_gateways("oncegate_admission_requests"), of_gateways("oncegate_admission_limit_requests")
    size, size_limit = of_gateways("oncegate_admission_bytes"), of_gateways("oncegate_admission_limit_bytes")
    return (
        made.with_row(Row("Process"))
        .with_panel(
            lines(
                "In flight",
                "Of what may be: at 100 % requests are refused.",
                "percentunit",
                Query(share(requests, limit), "{{instance}} requests"),
                Query(share(size, size_limit), "{{instance}} bytes"),
            )
        )
        .with_panel(
            lines("Memory", "Resident.", "bytes", Query(of_gateways("process_resident_memory_bytes"), "{{instance}}"))
        )
        .with_panel(
            lines(
                "Cores in use",
                "By the process, of those that the machine has.",
                "short",
                Query(f"rate({of_gateways('process_cpu_seconds_total')}[$__rate_interval])", "{{instance}}"),
            )
        )
        .with_panel(
            lines(
                "Open files",
                "Of what the process may have: connections and namespaces share them.",
                "percentunit",
                Query(share(of_gateways("process_open_fds"), of_gateways("process_max_fds")), "{{instance}}"),
            )
        )
    )
