"""Dashboard of Spark jobs: rows of their batches, suppressed rows, and drivers that have stopped."""

from grafana_foundation_sdk.builders.dashboard import Dashboard, Row

from deploy.grafana.panels import Query, board, chosen, latest, lines, number, rate, share

_PUBLISHED, _SUPPRESSED = "oncegate_committed_rows_total", "oncegate_suppressed_rows_total"
_DUPLICATES = "oncegate_duplicates_total"
# Causes that only tasks, batches and attempts of jobs have.
_OF_JOBS = 'cause=~"task_retry|stage_retry|speculation|batch_replay|zombie|other_job"'


def jobs() -> Dashboard:
    return _acks(
        _rows(_now(board("oncegate-jobs", "Oncegate: Spark jobs", "Rows, replays and acks of Spark batches.")))
    )


def _grown(name: str, more: str = "") -> str:
    return f"sum(increase({chosen(name, more)}[$__range]))"


def _now(made: Dashboard) -> Dashboard:
    brought = f"({_grown(_PUBLISHED)} + {_grown(_SUPPRESSED)})"
    return (
        made.with_row(Row("Batches"))
        .with_panel(number("Rows published", "Rows of commits, in this range.", "short", _grown(_PUBLISHED)))
        .with_panel(
            number(
                "Rows suppressed",
                "Share of the committed rows in this range that were written before; Spark counts them as output too.",
                "percentunit",
                share(_grown(_SUPPRESSED), brought),
            )
        )
        .with_panel(
            number(
                "Batches replayed",
                "Commits answered DUPLICATE in this range: the batch was repeated, and not published again.",
                "short",
                _grown("oncegate_duplicate_commits_total"),
            )
        )
        .with_panel(
            number(
                "Replays that differ",
                "Replays with other rows than the first commit: the source or the plan is not deterministic.",
                "short",
                _grown("oncegate_other_replays_total"),
            )
        )
        .with_panel(
            number(
                "From zombies",
                "Rows of superseded attempts or runs that were not written, in this range.",
                "short",
                _grown(_DUPLICATES, 'cause="zombie"'),
            )
        )
        .with_panel(
            number(
                "Oldest unacked",
                "Age of the oldest unacked batch since its first claim; growth means that a driver has stopped.",
                "s",
                f"max({chosen('oncegate_unacked_batch_age_seconds')})",
            )
        )
    )


def _rows(made: Dashboard) -> Dashboard:
    return (
        made.with_panel(
            lines(
                "Rows a second, by write mode",
                "Staged by tasks, published by commits, written at once (by id or plain), or written by clients.",
                "short",
                Query(rate("oncegate_staged_rows_total"), "{{namespace}} staged"),
                Query(rate(_PUBLISHED), "{{namespace}} published"),
                Query(rate("oncegate_produced_rows_total"), "{{namespace}} at once"),
                Query(rate("oncegate_lane_rows_total"), "{{namespace}} by clients"),
            )
        )
        .with_panel(
            lines(
                "Suppressed a second, by cause in a job",
                "Rows, ids and sequences: task retries, replays, zombies, and claims of other jobs.",
                "short",
                Query(rate(_DUPLICATES, "cause", _OF_JOBS), "by {{cause}}"),
                stacked=True,
            )
        )
        .with_panel(
            lines(
                "Rows suppressed a second, by place",
                "In commits, and in clients that ask for written sequences. Copies: records that repeat another one.",
                "short",
                Query(rate(_SUPPRESSED), "{{namespace}} commits"),
                Query(rate("oncegate_lane_duplicate_ids_total"), "{{namespace}} clients"),
                Query(rate("oncegate_lane_double_records_total"), "{{namespace}} copies"),
            )
        )
        .with_panel(
            lines(
                "Staged and not committed",
                "Bytes of stages that are not committed; growth means batches that fail before their commit.",
                "bytes",
                latest("oncegate_stage_bytes"),
            )
        )
    )


def _acks(made: Dashboard) -> Dashboard:
    return (
        made.with_row(Row("Tasks and drivers"))
        .with_panel(
            lines(
                "Ended claims a second",
                "Completed, released, and taken over after the holder's lease expired.",
                "short",
                Query(rate("oncegate_completed_claims_total"), "{{namespace}} completed"),
                Query(rate("oncegate_released_claims_total"), "{{namespace}} released"),
                Query(rate("oncegate_takeovers_total"), "{{namespace}} ids taken over"),
            )
        )
        .with_panel(
            lines(
                "Open claims",
                "Growth means that tasks die or never complete.",
                "short",
                latest("oncegate_open_claims"),
            )
        )
        .with_panel(
            lines(
                "Age of the oldest unacked batch",
                "By namespace; a running job acks each batch once the next one begins.",
                "s",
                latest("oncegate_unacked_batch_age_seconds"),
            )
        )
        .with_panel(
            lines(
                "Producers, drivers, unacked sequences",
                "Current numbers; sequences from the watermark to the highest claimed one, summed.",
                "short",
                latest("oncegate_producers", "{{namespace}} producers"),
                latest("oncegate_drivers", "{{namespace}} drivers"),
                latest("oncegate_unacked_sequences", "{{namespace}} sequences"),
            )
        )
    )
