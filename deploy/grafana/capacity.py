"""Dashboard of capacity: memory, disk, requests in flight, and the retention of ids."""

from grafana_foundation_sdk.builders.dashboard import Dashboard, Row

from deploy.grafana.panels import Query, board, chosen, latest, lines, of_gateways, share


def capacity() -> Dashboard:
    made = board("oncegate-capacity", "Oncegate: capacity", "Number, memory, disk and retention of ids.")
    return _process(_forgetting(_ids(made)))


def _ids(made: Dashboard) -> Dashboard:
    return (
        made.with_row(Row("Ids"))
        .with_panel(lines("Ids", "Current number of known ids.", "short", latest("oncegate_ids")))
        .with_panel(
            lines(
                "Ids added a day",
                "Extrapolated from the last hour; `oncegate size` computes the memory and disk for them.",
                "short",
                Query(f"max by (namespace) (deriv({chosen('oncegate_ids')}[1h])) * 86400", "{{namespace}}"),
            )
        )
        .with_panel(
            lines(
                "Memory of the index",
                "Slots and rows of hot ids; filters and fences of cold ids.",
                "bytes",
                latest("oncegate_index_bytes", "{{namespace}} hot"),
                latest("oncegate_cold_bytes", "{{namespace}} cold"),
            )
        )
        .with_panel(
            lines(
                "Cold ids",
                "Ids on disk instead of in memory, and the number of runs that contain them.",
                "short",
                latest("oncegate_cold_ids", "{{namespace}} ids"),
                latest("oncegate_cold_runs", "{{namespace}} runs"),
            )
        )
        .with_panel(
            lines(
                "Filters' false positives",
                "Share of ids in no run that pass the filters, and the configured limit.",
                "percentunit",
                latest("oncegate_cold_false_positive_ratio"),
                Query(f"max({of_gateways('oncegate_cold_false_positive_limit_ratio')})", "allowed"),
            )
        )
        .with_panel(lines("Open claims", "Growth means that writers die.", "short", latest("oncegate_open_claims")))
    )


def _forgetting(made: Dashboard) -> Dashboard:
    return (
        made.with_row(Row("Retention of ids, and acks"))
        .with_panel(
            lines(
                "Retention of ids",
                "Setting horizon_ms; 0: ids are kept for ever.",
                "s",
                latest("oncegate_horizon_seconds"),
            )
        )
        .with_panel(
            lines(
                "Oldest unacked batch",
                "Growth means that a driver has stopped, or does not ack.",
                "s",
                latest("oncegate_unacked_batch_age_seconds"),
            )
        )
        .with_panel(
            lines(
                "Unacked sequences",
                "Sum over all producers.",
                "short",
                latest("oncegate_unacked_sequences"),
            )
        )
        .with_panel(lines("Staged", "Bytes of stages that are not committed.", "bytes", latest("oncegate_stage_bytes")))
    )


def _process(made: Dashboard) -> Dashboard:
    requests, limit = of_gateways("oncegate_admission_requests"), of_gateways("oncegate_admission_limit_requests")
    size, size_limit = of_gateways("oncegate_admission_bytes"), of_gateways("oncegate_admission_limit_bytes")
    return (
        made.with_row(Row("Process"))
        .with_panel(
            lines(
                "In flight",
                "Share of the limits in use; at 100 % requests are refused.",
                "percentunit",
                Query(share(requests, limit), "{{instance}} requests"),
                Query(share(size, size_limit), "{{instance}} bytes"),
            )
        )
        .with_panel(
            lines(
                "Memory",
                "Resident memory.",
                "bytes",
                Query(of_gateways("process_resident_memory_bytes"), "{{instance}}"),
            )
        )
        .with_panel(
            lines(
                "Cores in use",
                "Processor time per second of the gateway's process.",
                "short",
                Query(f"rate({of_gateways('process_cpu_seconds_total')}[$__rate_interval])", "{{instance}}"),
            )
        )
        .with_panel(
            lines(
                "Open files",
                "Share of the process's limit in use, by connections and namespaces.",
                "percentunit",
                Query(share(of_gateways("process_open_fds"), of_gateways("process_max_fds")), "{{instance}}"),
            )
        )
    )
